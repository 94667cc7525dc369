"""The contract of a saver, as test classes. The test file of a backend:

    from perdure.checkpoint.sqlite import SqliteSaver
    from perdure.testing.saver_suite import SaverSuite

    class TestSqlite(SaverSuite):
        def make_saver(self, where, **options):
            return SqliteSaver(where / "threads.db", **options)

and of a saver of your own, which has `put`, `put_writes`, `get_tuple` and `list` only:

    class TestMine(ThirdPartySuite):
        def make_saver(self, where, **options):
            return MySaver(where / "threads.jsonl")

`where` is an empty directory. Every test runs in both colours: `blocking` calls the sync methods, `suspending` the async ones, from
a thread on which no event loop runs, through a loop on another one. A saver that has one of the two only says so:
`colours = ("suspending",)`.

Single parts are classes too: `PublicSuite` (the four methods), `GraphSuite` (whole graphs), `PromiseSuite` (what this library's
savers promise of the four methods beyond that), `RecordSuite`, `PartsSuite`, `BranchRecordSuite`, `LeaseSuite` (the record contract),
`MovingRecordSuite` and `MovingSuite` (threads that are copied, exported and imported),
savers promise of the four methods beyond that), `RecordSuite`, `PartsSuite`, `BranchRecordSuite`, `LeaseSuite`, `IndexSuite` (the record contract),
`TravelSuite`, `NestedSuite`, `BranchSuite` (time travel), `FailureSuite` (saves that fail), `RoundTripSuite` (how often a call goes to
the database), `WriterSuite` (runs that meet on one thread), `RetentionRecordSuite`, `RetentionSuite` (taking old checkpoints away).

Needs pytest: `pip install 'perdure[testing]'`.
"""

from __future__ import annotations

from perdure.errors import MissingExtra

try:
    import pytest
except ImportError as error:
    raise MissingExtra("perdure.testing.saver_suite", "testing") from error

# Before they are imported, so that their asserts show what was compared.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "public",
            "promises",
            "records",
            "parts",
            "leases",
            "moving",
            "graphs",
            "travel",
            "nested",
            "branches",
            "failures",
            "index",
            "roundtrips",
            "writers",
            "retention",
        )
    )
)

from perdure.testing.saver_suite.branches import BranchRecordSuite, BranchSuite  # noqa: E402
from perdure.testing.saver_suite.failures import FailureSuite  # noqa: E402
from perdure.testing.saver_suite.graphs import GraphSuite  # noqa: E402
from perdure.testing.saver_suite.index import IndexSuite  # noqa: E402
from perdure.testing.saver_suite.leases import LeaseSuite  # noqa: E402
from perdure.testing.saver_suite.moving import MovingRecordSuite, MovingSuite  # noqa: E402
from perdure.testing.saver_suite.nested import NestedSuite  # noqa: E402
from perdure.testing.saver_suite.parts import PartsSuite  # noqa: E402
from perdure.testing.saver_suite.promises import PromiseSuite  # noqa: E402
from perdure.testing.saver_suite.public import PublicSuite  # noqa: E402
from perdure.testing.saver_suite.records import RecordSuite  # noqa: E402
from perdure.testing.saver_suite.retention import RetentionRecordSuite, RetentionSuite  # noqa: E402
from perdure.testing.saver_suite.roundtrips import RoundTripSuite  # noqa: E402
from perdure.testing.saver_suite.travel import TravelSuite  # noqa: E402
from perdure.testing.saver_suite.writers import WriterSuite  # noqa: E402

__all__ = [
    "BranchRecordSuite",
    "BranchSuite",
    "FailureSuite",
    "GraphSuite",
    "IndexSuite",
    "LeaseSuite",
    "MovingRecordSuite",
    "MovingSuite",
    "NestedSuite",
    "PartsSuite",
    "PromiseSuite",
    "PublicSuite",
    "RecordSuite",
    "RetentionRecordSuite",
    "RetentionSuite",
    "RoundTripSuite",
    "SaverSuite",
    "ThirdPartySuite",
    "TravelSuite",
    "WriterSuite",
]


class ThirdPartySuite(PublicSuite, GraphSuite, TravelSuite, NestedSuite):
    """What a saver with the four methods has to pass: the methods themselves, and graphs that run on them."""


class SaverSuite(
    PublicSuite,
    PromiseSuite,
    RecordSuite,
    PartsSuite,
    BranchRecordSuite,
    LeaseSuite,
    MovingRecordSuite,
    GraphSuite,
    TravelSuite,
    NestedSuite,
    BranchSuite,
    MovingSuite,
    FailureSuite,
    IndexSuite,
    RoundTripSuite,
    WriterSuite,
    RetentionRecordSuite,
    RetentionSuite,
):
    """What a saver of this library has to pass."""
