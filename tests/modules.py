"""A template that grants native modules, and its sessions in a worktree: for the tests of all modules."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from holdfast import Holdfast, Limits, Settings, Worktree
from tests.acceptance.scenes import opened, value


class Place:
    """A template that exposes modules, each with a config, and its sessions in a worktree."""

    def __init__(self, hf: Holdfast, template: str, tree: Path | None) -> None:
        self.hf, self.template, self.tree = hf, template, tree

    async def session(self) -> Any:
        worktree = None if self.tree is None else Worktree("workspace", "deadbeef", str(self.tree))
        return (await self.hf.sessions.create(self.template, worktree=worktree)).id

    async def run(self, session: Any, source: str) -> Any:
        return value(await self.hf.executions.run(session, source))

    async def fails(self, session: Any, source: str) -> str:
        """The code of what a script raises. What it says is no news of the host."""
        turn = await self.hf.executions.run(session, source)
        assert turn.execution.status == "error", turn.execution.result
        assert turn.execution.error is not None
        for secret in ("Traceback", ".py", *([] if self.tree is None else [str(self.tree.parent)])):
            assert secret not in turn.execution.error["message"]
        return str(turn.execution.error["code"])


@contextlib.asynccontextmanager
async def place(
    tree: Path | None,
    *,
    language: str = "javascript",
    address: str = "memory:",
    settings: Settings | None = None,
    **modules: Any,
) -> AsyncIterator[Place]:
    limits = modules.pop("limits", None) or Limits()
    async with opened(address, settings=settings) as hf:
        made = await hf.templates.create("t", language=language, limits=limits)  # type: ignore[arg-type]
        for name, config in modules.items():
            await hf.templates.add_module(made.id, name)
            if config is not None:
                await hf.templates.add_capability(made.id, "module", name, enabled=True, config=config)
        yield Place(hf, "t", tree)
