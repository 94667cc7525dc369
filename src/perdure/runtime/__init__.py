"""What a running node can reach: its context, its store, its stream, its own identity."""

from perdure.errors import NodeError
from perdure.runtime.runtime import BaseUser, ExecutionInfo, RunControl, Runtime, ServerInfo, get_runtime

__all__ = ["BaseUser", "ExecutionInfo", "NodeError", "RunControl", "Runtime", "ServerInfo", "get_runtime"]
