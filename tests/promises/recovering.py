"""Runs whose process died, taken up in either colour."""

from __future__ import annotations

from typing import Any

from perdure.engine.running.recovery import Recovery
from tests.promises.ways import Ledger, Way, chain


def resume_all(way: Way, graph: Any, **options: Any) -> list[Recovery]:
    found: list[Recovery] = way._do(graph, "resume_all", **options)
    return found


def outcomes(reports: list[Recovery]) -> dict[str, str]:
    return {report.thread_id: report.outcome for report in reports}


def three(ledger: Ledger, saver: Any, name: str | None = "three") -> Any:
    nodes = [(each, ledger.node(each)) for each in "abc"]
    return chain(*nodes).compile(checkpointer=saver, name=name)
