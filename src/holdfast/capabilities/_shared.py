"""Objects that the modules of all sessions of a runtime share, such as a pool of processes. They end with the runtime."""

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


Kind = TypeVar("Kind", bound=Closable)


class Shared:
    """One object of each kind, made when it is first asked for. It may be used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[Callable[[], Any], Closable] = {}

    def __call__(self, kind: Callable[[], Kind]) -> Kind:
        with self._lock:
            found = self._made.get(kind)
            if found is None:
                found = self._made[kind] = kind()
            return found  # type: ignore[return-value]

    def close(self) -> None:
        """Ends all of them. Idempotent."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        for one in made:
            one.close()
