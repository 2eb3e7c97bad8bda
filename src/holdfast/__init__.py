"""Script sessions that survive anything: JavaScript and Lua in a WebAssembly sandbox.

    async with holdfast.Holdfast.open("sqlite:///work.db") as hf:
        await hf.templates.create("first")
        session = await hf.sessions.create("first")
        turn = await hf.executions.run(session.id, "await ask('Who?')")
        turn = await hf.queries.answer(session.id, "Ada")

What is not here is in the layers below: `holdfast.domain` has the records and errors, `holdfast.sandbox` the guests.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.client import AsyncClient as AsyncClient
    from holdfast.client import Client as Client
    from holdfast.control import Asked as Asked
    from holdfast.control import Holdfast as Holdfast
    from holdfast.control import Recorded as Recorded
    from holdfast.control import Response as Response
    from holdfast.domain import Answer as Answer
    from holdfast.domain import Budget as Budget
    from holdfast.domain import Capability as Capability
    from holdfast.domain import HoldfastError as HoldfastError
    from holdfast.domain import Limits as Limits
    from holdfast.domain import Retention as Retention
    from holdfast.domain import SourceFile as SourceFile
    from holdfast.domain import StartupFile as StartupFile
    from holdfast.domain import Worktree as Worktree
    from holdfast.libraries import LibraryCache as LibraryCache
    from holdfast.runtime import EffectKind as EffectKind
    from holdfast.runtime import Function as Function
    from holdfast.runtime import Settings as Settings
    from holdfast.runtime import Tool as Tool
    from holdfast.runtime import Turn as Turn
    from holdfast.sandbox import HostError as HostError
    from holdfast.strategies import PackagePath as PackagePath

_PLACES = {
    **dict.fromkeys(("AsyncClient", "Client"), "client"),
    **dict.fromkeys(("Asked", "Holdfast", "Recorded", "Response"), "control"),
    **dict.fromkeys(
        ("Answer", "Budget", "Capability", "HoldfastError", "Limits", "Retention", "SourceFile", "StartupFile", "Worktree"),
        "domain",
    ),
    "LibraryCache": "libraries",
    **dict.fromkeys(("EffectKind", "Function", "Settings", "Tool", "Turn"), "runtime"),
    "HostError": "sandbox",
    "PackagePath": "strategies",
}

__all__ = [
    "Answer",
    "Asked",
    "AsyncClient",
    "Budget",
    "Capability",
    "Client",
    "EffectKind",
    "Function",
    "Holdfast",
    "HoldfastError",
    "HostError",
    "LibraryCache",
    "Limits",
    "PackagePath",
    "Recorded",
    "Response",
    "Retention",
    "Settings",
    "SourceFile",
    "StartupFile",
    "Tool",
    "Turn",
    "Worktree",
]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(f"holdfast.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
