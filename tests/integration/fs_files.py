"""The module `fs` as one session has it, for tests that need no script."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from holdfast.capabilities import Meter, NativeModules, Scope, modules
from holdfast.capabilities.native import Grant
from holdfast.sandbox import HostError

VERBS: dict[str, tuple[Any, ...]] = {
    "readFileSync": (),
    "readdirSync": (),
    "statSync": (),
    "existsSync": (),
    "writeFileSync": ("x",),
    "mkdirSync": ({"recursive": True},),
    "rmSync": ({"recursive": True, "force": True},),
    "renameSync": ("elsewhere",),
}
"""All that scripts can do, with what they give besides a path."""


class Files:
    """The module as one session has it."""

    def __init__(self, tree: Path | None, *, stopped: Callable[[], bool] = bool, **config: Any) -> None:
        scope = Scope(uuid4(), uuid4(), None if tree is None else str(tree), is_stopped=stopped)
        made = NativeModules([Grant(modules()["fs"], config)], scope, Meter())
        self.calls = {name.removeprefix("fs."): call for name, call, _ in made.functions()}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return self.calls[name]

    def code(self, verb: str, *given: Any) -> str:
        """What comes of a call, as a word. What it says is no news of the host."""
        opened = len(os.listdir("/proc/self/fd"))
        told, code = "", "ok"
        try:
            self.calls[verb](*given)
        except HostError as error:
            told, code = str(error), error.script_code
        for secret in ("Errno", "holdfast-", "/tmp", "/etc", os.sep + "tree"):
            assert secret not in told
        assert len(os.listdir("/proc/self/fd")) <= opened
        return code

    def tried(self, *paths: Any) -> dict[str, set[str]]:
        """What comes of all verbs with each path."""
        return {verb: {self.code(verb, str(path), *given) for path in paths} for verb, given in VERBS.items()}


def make_tree(folder: Path) -> Path:
    """A worktree beside a secret."""
    (folder / "secret.txt").write_text("secret")
    tree = folder / "tree"
    (tree / "lib").mkdir(parents=True)
    (tree / "note.txt").write_text("héllo")
    (tree / "lib" / "one.txt").write_text("one")
    return tree


def everything(refusal: str) -> dict[str, set[str]]:
    return {verb: {refusal} for verb in VERBS}
