"""The beginning of a run: load, understand what the caller wants, and make it durable before the first node runs.

Whoever else writes to the thread between our load and our first commit makes that commit fail with StaleLoad; then all is done
again on what is there now. No node has run by then, only the path functions of START's edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from perdure.channels.base import MISSING
from perdure.checkpoint.index.records import ThreadFilter
from perdure.checkpoint.leases.lease import is_free, still_busy
from perdure.checkpoint.records import ROOT_NS, LeaseRow, Loaded, StaleLoad
from perdure.checkpoint.saving import begin
from perdure.constants import CONF, PREVIOUS
from perdure.engine.deciding import decide
from perdure.engine.deciding.live import Live
from perdure.engine.deciding.plan import next_move
from perdure.engine.past.branches import branch_of, unknown_branch
from perdure.engine.past.forking import Inside
from perdure.engine.past.places import locate
from perdure.engine.running.entering import Opened, enter, entry_value, hand_in, take_input, validate
from perdure.engine.running.reopening import apply_command, go_on, start_with_command
from perdure.engine.storing.journal import Journal
from perdure.engine.storing.record import RunRecord
from perdure.engine.storing.restore import Kept, Restored
from perdure.engine.storing.session import Access, Session
from perdure.engine.tasks.task import Entry
from perdure.errors import EmptyInputError, InvalidConfig, ThreadBusy, UnknownCheckpoint
from perdure.runtime.config import stored_metadata
from perdure.types import NO_ANSWER, Command

if TYPE_CHECKING:
    from perdure.checkpoint.leases.line import Place
    from perdure.engine.running.run import Run
    from perdure.types import Durability


async def open_run(run: Run, given: Any, access: Access | None, wait: float | None = None) -> Opened:
    """Bring a root run to the point where its first node may run.

    Args:
        run: the run; gets its live state and its journal.
        given: an input, a Command, or None to go on.
        access: the way to its thread; None without a saver.
        wait: for how many seconds to wait for a busy thread; None: do not.

    Raises:
        ThreadBusy: another run holds the thread, and `wait` is over.
        UnknownThread, UnknownCheckpoint, EmptyInputError, UnknownInterruptError: there is nothing to do that for.
        UnknownKey, InvalidUpdateError, NotStorable: the input cannot be taken.
        MovedOn: the thread is not as the access wants it.
    """
    if isinstance(given, Command):
        entrypoint = None if run.program.single_output is None else run.program.name
        decide.check_command(given, saver=access is not None, entrypoint=entrypoint)
    if access is None:
        return await _open_unsaved(run, given)
    if wait is None:
        return await _open_saved(run, given, access)
    now = run.clock.monotonic
    deadline = now() + wait
    with access.line.join(access.thread, now()) as place:
        while True:
            if place.is_next(now()) or now() >= deadline:
                try:
                    return await _open_saved(run, given, access)
                except ThreadBusy as error:
                    if now() >= deadline:
                        raise still_busy(error, wait) from None
            await _let_pass(run, access, place, deadline)


async def _open_saved(run: Run, given: Any, access: Access) -> Opened:
    while True:
        try:
            loaded, inside, target = await begin(load(access, run, given), access.thread)
            access.refuse_if_moved_on(loaded.thread)
            session = Session(access, loaded, run.runner, (run.program.name, run.program.fingerprint))
            session.record = RunRecord(run, access.run_id, access.clock.now_ns())
            session.refuse_if_busy()
            return await open_in(run, session, loaded, given, inside=inside, target=target)
        except StaleLoad:
            continue


async def _let_pass(run: Run, access: Access, place: Place, deadline: float) -> None:
    """Wait until it is this run's turn and the thread may be had, or the time is over."""
    now = run.clock.monotonic
    seen: object = None
    while (left := deadline - now()) > 0:
        await run.runner.sleep(min(left, place.pause(seen, now())))
        if place.is_next(now()):
            # The thread's row alone: a state may be large, and most looks find the thread still held.
            rows = await access.records.threads(after=None, limit=1, wanted=ThreadFilter(prefix=access.thread))
            lease = rows[0].lease if rows and rows[0].thread == access.thread else LeaseRow()
            if is_free(lease, access.watch.over(access.thread, lease)):
                return
            seen = (lease.token, lease.epoch)


async def _open_unsaved(run: Run, given: Any) -> Opened:
    opened = Opened()
    live = run.live = Live(run.program)
    if given is None:
        raise EmptyInputError(
            "Received no input for __start__: a graph without a saver remembers nothing that it could go on with"
        )
    if run.program.single_output is not None:
        live.step = -1
        hand_in(run, given, -1)
    elif isinstance(given, Command) and given.goto:
        live.step = 0
        opened.entered, _ = apply_command(run, given, 0)
    else:
        entry = Entry(run, 0, entry_value(run, given.update if isinstance(given, Command) else given))
        await enter(run, opened, entry)
        live.step = 0
        opened.entered = live.advance((entry,), 0)
        validate(run, opened.entered)
    run.last_step = live.step + run.limit
    opened.move = next_move(run, ())
    return opened


async def load(access: Access, run: Run, given: Any) -> tuple[Loaded, Inside | None, Loaded | None]:
    """The checkpoint that the config addresses, or the thread's head.

    Returns:
        The root's checkpoint; and where the config addresses a checkpoint inside a subgraph, the way to it and itself.

    Raises:
        UnknownCheckpoint, UnknownBranch: the config names one that the thread does not have.
        InvalidConfig: it addresses one inside a subgraph, which an input cannot be given to.
    """
    conf = run.config.get(CONF) or {}
    branch = branch_of(run.config)
    if branch is not None:
        found = await access.load(branch)
        if found.row is None:
            raise await unknown_branch(access, branch)
        return found, None, None
    wanted = conf.get("checkpoint_id") or None
    namespace = conf.get("checkpoint_ns") or ""
    if namespace and wanted is not None:
        if given is not None and not isinstance(given, Command):
            raise InvalidConfig(
                f"an input cannot be given to a checkpoint inside a subgraph (namespace {namespace!r}); address one of the root graph",
                thread=access.thread,
                checkpoint=wanted,
            )
        place = await locate(access, namespace, wanted)
        if place.is_now and None in place.links:  # and what made it, to the task that did
            place = await locate(access, namespace, wanted, now=False)
        # What is remembered between two calls belongs to the checkpoint that remembers it: the run goes on there.
        target = None if None in place.links else place.target
        return place.root, None if place.waits else place.inside, target
    loaded = await access.load(wanted)
    if wanted is not None and loaded.row is None:
        raise UnknownCheckpoint(
            f"thread {access.thread!r} has no checkpoint {wanted!r}; take ids from get_state or get_state_history",
            thread=access.thread,
            checkpoint=wanted,
        )
    return loaded, None, None


async def open_in(
    run: Run,
    session: Session,
    loaded: Loaded,
    given: Any,
    *,
    ns: int = ROOT_NS,
    child_of: tuple[int, int, str, int] | None = None,
    new: bool = False,
    remembers: bool = False,
    durability: Durability | None = None,
    inside: Inside | None = None,
    target: Loaded | None = None,
) -> Opened:
    """Begin a run on what was loaded, in the root or in the namespace of a subgraph."""
    now_ns = session.access.clock.now_ns()
    restored = None if loaded.row is None else Restored(run.program, loaded, session.serde, now_ns)
    if restored is None:
        run.live = Live(run.program, look=getattr(session.serde, "made_of", None))
        run.journal = Journal(session, ns, run.namespace, child_of=child_of, new=new)
    else:
        run.live = restored.live
        run.journal = Journal(
            session,
            ns,
            run.namespace,
            row=restored.row,
            entries=restored.entries,
            chain=len(loaded.chain),
            ids=restored.ids,
            stored=restored,
            child_of=child_of,
        )
        run.children = {(c.origin, c.path, c.call): (c.child_ns, c.head) for c in loaded.children}
        run.given = None if restored.given is MISSING else restored.given
    run.previous = run.live.view.get(PREVIOUS)
    run.journal.remembers = remembers
    if durability is not None:
        run.journal.durability = durability
    if child_of is None and (branch := branch_of(run.config)) is not None:
        run.journal.branch = branch.name
    run.metadata = stored_metadata(run.config, session.access.persist)
    if run.parent is not None:
        run.metadata["parents"] = run.parents
    if child_of is None:
        session.describe(run.metadata)
    if given is not None and not isinstance(given, Command):
        return await take_input(run, given)
    if restored is None:
        if given is None or given.resume is not NO_ANSWER:
            raise decide.nothing_to_resume(session.thread)
        return await (start_with_command(run, given) if given.goto else take_input(run, given.update))
    return await go_on(run, restored, given, inside, None if target is None else Kept(target, session.serde))
