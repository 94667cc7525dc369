"""What a running node can reach: its context, its store, its stream, its own identity."""

from perdure.errors import NodeError
from perdure.runtime.runtime import ExecutionInfo, RunControl, Runtime, ServerInfo, get_runtime

__all__ = ["ExecutionInfo", "NodeError", "RunControl", "Runtime", "ServerInfo", "get_runtime"]
