"""A process that has imported everything and forks one that runs a story, for each line it reads: a new process costs 5 ms.

Each child may be told to die at a failpoint. Lines are JSON, both ways.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.engine import runners_suspending  # noqa: F401 - imported here once, not in each child
from perdure.types import StateSnapshot
from tests.crash.stories import finish
from tests.promises.ways import Way, on, open_saver, orphans, rows_of


def stored_labels(saver: Saver) -> list[str]:
    """What the stored results say: a task writes its label into the log."""
    writes = rows_of(saver)["writes"]
    found = [
        value
        for (_, _, path, kind), items in writes.items()
        if kind == RESULT and not path.startswith("=")
        for key, values in items
        if key == "log"
        for value in values
    ]
    return [label for label in found if label != "yes"]


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


def brief(snapshot: StateSnapshot) -> Any:
    metadata: Any = snapshot.metadata
    return [snapshot.values, snapshot.next, metadata["source"], metadata["step"], metadata["writes"]]


def live(order: dict[str, Any]) -> None:
    """A child's life: run, or go on, to the end or to the failpoint; tell what was found and what came of it."""
    folder = Path(order["folder"])
    ledger = folder / "ledger"
    way = Way(order["colour"])
    saver = open_saver("sqlite", folder)
    told: dict[str, Any] = {}
    if order["failpoint"]:
        failpoints._armed, failpoints._remaining = failpoints._parse(order["failpoint"])
    else:
        told = {"stored": stored_labels(saver), "ledger": lines(ledger)}
    graph = finish(order["story"], saver, ledger, way, order["durability"])
    told["ran"] = lines(ledger)
    told["state"] = brief(way.state(graph, on()))
    told["history"] = [brief(snapshot) for snapshot in way.history(graph, on())]
    told["orphans"] = orphans(saver)
    saver.close()
    (folder / "told.json").write_text(json.dumps(told))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                live(json.loads(line))
            except BaseException:  # noqa: BLE001 - told on stderr; the parent sees the code
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
