"""Workflows as plain functions: `entrypoint` makes one durable, `task` marks its steps.

@task
def fetch(url: str) -> str: ...

@entrypoint(checkpointer=SqliteSaver("app.db"))
def digest(urls: list[str]) -> list[str]:
return [page.result() for page in [fetch(url) for url in urls]]

digest.invoke(["https://…"], {"configurable": {"thread_id": "1"}})
"""

from perdure.func.entrypoint import entrypoint
from perdure.func.task import task

__all__ = ["entrypoint", "task"]
