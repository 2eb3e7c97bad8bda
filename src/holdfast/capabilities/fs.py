"""`fs`: files of the session's worktree."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from holdfast.capabilities.native import NativeModule, effect
from holdfast.capabilities.worktree import list_folder, look_at, read_bytes, write_file
from holdfast.domain import EffectKind, FileNotFound
from holdfast.sandbox import HostError

_TEXT: Final = ("utf8", "utf-8")
_BYTES: Final = "buffer"


@dataclass(frozen=True, slots=True)
class FsConfig:
    """Whether scripts may write."""

    write: bool = False


class Fs(NativeModule):
    """Paths are relative to the worktree, or absolute and inside it."""

    name: ClassVar[str] = "fs"
    description: ClassVar[str] = "Reads files of the session's worktree, and writes them if its config says so."
    config_type: ClassVar[type[Any]] = FsConfig

    @effect(EffectKind.READ)
    def readFileSync(self, path: str, encoding: str = "utf8") -> str | bytes:  # noqa: N802 - the name that scripts see
        as_text = _is_text(encoding)
        data = read_bytes(self.scope.root, path)
        if not as_text:
            return data
        try:
            return data.decode()
        except UnicodeDecodeError:
            message = f"this file is not text in UTF-8: read it with the encoding {_BYTES!r}"
            raise HostError(message, code="NOT_TEXT") from None

    @effect(EffectKind.READ)
    def existsSync(self, path: str) -> bool:  # noqa: N802
        """Whether a file or folder is there. A path that leads out is refused, like everywhere: that is neither yes nor no."""
        try:
            look_at(self.scope.root, path)
        except FileNotFound:
            return False
        return True

    @effect(EffectKind.READ)
    def readdirSync(self, path: str) -> list[str]:  # noqa: N802
        return list_folder(self.scope.root, path)

    @effect(EffectKind.READ)
    def statSync(self, path: str) -> dict[str, Any]:  # noqa: N802
        """Plain values: objects with methods cannot cross into a sandbox."""
        found = look_at(self.scope.root, path)
        return {
            "size": found.size,
            "isFile": found.is_file,
            "isDirectory": not found.is_file,
            "mtimeMs": found.modified_ms,
        }

    @effect(EffectKind.IDEMPOTENT)
    def writeFileSync(self, path: str, data: str | bytes, encoding: str = "utf8") -> None:  # noqa: N802
        """The whole file at once: whoever reads sees what was there before, or all of this."""
        if not self.config.write:
            raise HostError("the template does not allow to write files", code="WRITE_NOT_ALLOWED")
        _is_text(encoding)
        write_file(self.scope.root, path, data.encode() if isinstance(data, str) else data)


def _is_text(encoding: str) -> bool:
    word = encoding.lower()
    if word not in (*_TEXT, _BYTES):
        raise HostError(f"an encoding is 'utf8' or {_BYTES!r}", code="INVALID_ARGUMENT")
    return word in _TEXT
