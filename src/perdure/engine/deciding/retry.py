"""Whether a failed attempt is followed by another, and when. Pure but for the jitter it is given."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.types import RetryPolicy


def matching(policies: Sequence[RetryPolicy], error: Exception) -> RetryPolicy | None:
    """The first policy that covers this error, None if none does."""
    for policy in policies:
        retry_on = policy.retry_on
        if isinstance(retry_on, type):
            if isinstance(error, retry_on):
                return policy
        elif callable(retry_on):
            if retry_on(error):
                return policy
        elif isinstance(error, tuple(retry_on)):
            return policy
    return None


def pause_before_next(policies: Sequence[RetryPolicy], error: Exception, failures: int, jitter: float) -> float | None:
    """Seconds to wait before the next attempt; None: give up.

    Args:
        policies: the node's policies.
        error: what the last attempt raised.
        failures: how many attempts have failed, this one included.
        jitter: a random number between 0 and 1, added where the policy asks for jitter.
    """
    policy = matching(policies, error)
    if policy is None or failures >= policy.max_attempts:
        return None
    seconds = min(policy.max_interval, policy.initial_interval * policy.backoff_factor ** (failures - 1))
    return seconds + jitter if policy.jitter else seconds
