"""The MCP server: strategies for hosts that speak the Model Context Protocol. Parses, calls control, answers. It has no rules of its own.

`serve_stdio` is `holdfast mcp`: one host, over pipes. `Endpoint` is `/mcp` of the daemon: an ASGI application. Both serve what `_server`
makes, on the official SDK, which takes a second to import: nothing here does so before the first host has come.

`_tools` says what there is to call, `_calls` what each call does, `_rounds` how questions are asked in the middle of a call,
`_under_way` what becomes of a call that is cancelled, and of one whose connection is lost.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.mcp._endpoint import Caller as Caller
    from holdfast.mcp._endpoint import Endpoint as Endpoint
    from holdfast.mcp._stdio import serve_stdio as serve_stdio
    from holdfast.mcp._tools import TOOLS as TOOLS

_PLACES = {"Caller": "_endpoint", "Endpoint": "_endpoint", "serve_stdio": "_stdio", "TOOLS": "_tools"}

__all__ = ["TOOLS", "Caller", "Endpoint", "serve_stdio"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(f"holdfast.mcp.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'holdfast.mcp' has no attribute {name!r}")
