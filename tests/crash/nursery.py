"""A process that has imported everything and forks one that runs a story, for each line it reads: a new process costs 5 ms.

Each child may be told to die at a failpoint. Lines are JSON, both ways.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.checkpoint.records import RESULT
from perdure.checkpoint.saver import Saver
from perdure.constants import RETURN
from perdure.types import StateSnapshot
from tests.crash.stories import finish
from tests.promises.ways import Way, on, open_saver, orphans, rows_of


def stored_labels(saver: Saver) -> list[str]:
    """What the stored results say: a task writes its label into the log, a durable step returns it."""
    found: list[str] = []
    for (_, _, path, kind), items in rows_of(saver)["writes"].items():
        if kind != RESULT or path.startswith("="):
            continue
        for key, value in items:
            found.extend(value if key == "log" else [value] if key == RETURN else [])
    return [label for label in found if label != "yes"]


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


def brief(snapshot: StateSnapshot) -> Any:
    metadata: Any = snapshot.metadata
    return [snapshot.values, snapshot.next, metadata["source"], metadata["step"], metadata["writes"]]


def live(order: dict[str, Any], template: Path | None) -> None:
    """A child's life: run, or go on, to the end or to the failpoint; tell what was found and what came of it."""
    folder = Path(order["folder"])
    ledger = folder / "ledger"
    way = Way(order["colour"])
    if template is not None and order["template"] and not (folder / "promises.db").exists():
        shutil.copy(template, folder / "promises.db")
    # "normal" spares waiting for the disk. A process that is killed cannot tell the difference, only a power loss could.
    saver = open_saver("sqlite", folder, synchronous="full" if order["story"] == "loop" else "normal")
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


def warm_up(folder: Path) -> Path:
    """Import all that a story needs, once for all children, and leave no thread behind; an empty database."""
    for colour in ("sync", "async"):
        (folder / colour).mkdir()
        order = {
            "folder": folder / colour,
            "colour": colour,
            "story": "subgraph",
            "durability": "sync",
            "failpoint": "",
            "template": False,
        }
        live(order, None)
    template = folder / "template"
    template.mkdir()
    with open_saver("sqlite", template) as saver:
        saver.delete_thread("none")  # the first use makes the tables
    while threading.active_count() > 1:
        time.sleep(0.001)
    return template / "promises.db"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        template = warm_up(Path(folder))
        gc.freeze()  # or the children's collections would copy every page
        for line in sys.stdin:
            child = os.fork()
            if child == 0:
                try:
                    live(json.loads(line), template)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
