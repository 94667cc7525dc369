"""An entrypoint that is killed and goes on, in children that this process forks, one for each line it reads: that is quick."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from perdure import failpoints
from perdure.checkpoint.records import RESULT
from perdure.checkpoint.sqlite import SqliteSaver
from perdure.types import Command, interrupt
from tests.func.bodies import Workshop
from tests.promises.ways import on, orphans, rows_of


def flow_of(shop: Workshop, ledger: Path, saver: SqliteSaver) -> Any:
    """One step, two at once, a question, and a step with two steps of its own; each notes in a file that it ran."""

    def note(label: str) -> None:
        handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, f"{label}\n".encode())
        os.close(handle)

    def step(at: int) -> Any:
        note(f"step{at}")
        return {"label": f"step{at}", "text": "x" * 500}

    def outer(at: int) -> Any:
        note(f"outer{at}")
        yield [steps(at), steps(at + 1)]
        return {"label": f"outer{at}"}

    def wf(given: int) -> Any:
        found = [(yield steps(given)), *(yield [steps(10), steps(11)])]
        answer = interrupt("?")
        found.append((yield nested(20)))
        return [answer, *(one["label"] for one in found)]

    steps, nested = shop.step(step), shop.nested(outer)
    return shop.flow(wf, saver)


def stored_labels(saver: SqliteSaver) -> list[str]:
    """What the stored results of steps say."""
    writes = rows_of(saver)["writes"]
    return [
        dict(items)["__return__"]["label"] for (_, _, path, kind), items in writes.items() if kind == RESULT and ">" in path
    ]


def lines(ledger: Path) -> list[str]:
    return ledger.read_text().split() if ledger.exists() else []


def live(order: dict[str, Any]) -> None:
    """A child's life: begin or go on, to the end or to the failpoint."""
    folder = Path(order["folder"])
    ledger = folder / "ledger"
    shop = Workshop(order["colour"])
    saver = SqliteSaver(folder / "steps.db")
    told: dict[str, Any] = {}
    if order["failpoint"]:
        failpoints._armed, failpoints._remaining = failpoints._parse(order["failpoint"])
    else:
        told = {"stored": stored_labels(saver), "before": lines(ledger)}
    flow = flow_of(shop, ledger, saver)
    state = shop.state(flow, on())
    while state.metadata is None or state.next:
        given: Any = 1 if state.metadata is None else Command(resume="yes") if state.interrupts else None
        told["out"] = shop.invoke(flow, given, on(), durability=order["durability"])
        state = shop.state(flow, on())
    told["ran"] = lines(ledger)
    told["orphans"] = orphans(saver)
    saver.close()
    (folder / "told.json").write_text(json.dumps(told))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                live(json.loads(line))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


if __name__ == "__main__":
    main()
