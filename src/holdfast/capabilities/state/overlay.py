"""What a step does to the state. Nobody else sees it before the step is committed, and if it is rolled back nobody ever does.

A key is read from the store once in a step, and keeps the value that it had then, but for what the step itself changes. Whoever changes a
key after having read it expects to find it so at the commit. If another session was faster, the step is run again. What is written
without having been read is written whatever is there.
"""

from collections.abc import Callable
from typing import Final

from holdfast.sandbox import HostError
from holdfast.store import StateWrite, Store

_MOST_BYTES: Final = 8 * 1024 * 1024
"""What one step may write, in all keys together."""


class _Seen:
    """A key, as the step sees it. `value` is JSON; None: there is none."""

    __slots__ = ("changed", "expires_at", "read", "value", "version")

    def __init__(self, version: int, value: str | None, expires_at: int | None) -> None:
        self.version, self.value, self.expires_at = version, value, expires_at
        self.read = self.changed = False


class Overlay:
    """The state, as the step that runs sees it. One thread at a time may use it."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._counts: dict[str, int] = {}
        self._growth: dict[str, int] = {}
        self._bytes = 0

    @property
    def now(self) -> int:
        """By which lifetimes are judged."""
        return int(self._clock())

    def clear(self) -> None:
        """A step begins, or what it did so far is in the store."""
        if self._seen or self._counts:
            self._seen, self._counts, self._growth, self._bytes = {}, {}, {}, 0

    def writes(self) -> list[StateWrite]:
        """What is to be committed."""
        return [
            StateWrite(namespace, key, seen.value, seen.version if seen.read or seen.value is None else None, seen.expires_at)
            for (namespace, key), seen in self._seen.items()
            if seen.changed and (seen.version or seen.value is not None)
        ]

    def get(self, namespace: str, key: str) -> tuple[str, int | None] | None:
        """A value as JSON, and until when it is there."""
        seen = self._look(namespace, key)
        seen.read = True
        return (seen.value or "", seen.expires_at) if self._lives(seen) else None

    def glance(self, namespace: str, key: str) -> str | None:
        """A value as JSON, for whoever looks through many: it is not kept for the step, so the next look may find another."""
        seen = self._seen.get((namespace, key))
        if seen is not None:
            return seen.value if self._lives(seen) else None
        row = self._store.get_state(namespace, key)
        return None if row is None or (row.expires_at is not None and row.expires_at <= self.now) else row.value

    def has(self, namespace: str, key: str) -> bool:
        """Whether it is there: for whoever is about to write it in any case."""
        return self._lives(self._look(namespace, key))

    def put(self, namespace: str, key: str, value: str, expires_at: int | None) -> None:
        seen = self._look(namespace, key)
        grown = self._bytes + len(value) - self._size(seen)
        if grown > _MOST_BYTES:
            raise HostError(f"a step writes at most {_MOST_BYTES} bytes of state", code="STATE_TOO_LARGE")
        self._grow(namespace, 0 if self._lives(seen) else 1)
        self._bytes = grown
        seen.value, seen.expires_at, seen.changed = value, expires_at, True

    def delete(self, namespace: str, key: str) -> bool:
        """Whether it was there."""
        if self.get(namespace, key) is None:
            return False
        seen = self._look(namespace, key)
        self._grow(namespace, -1)
        self._bytes -= self._size(seen)
        seen.value, seen.expires_at, seen.changed = None, None, True
        return True

    def keys(self, namespace: str, prefix: str) -> list[str]:
        """Sorted by code points."""
        found: set[str] = set()
        after: str | None = None
        while True:
            page = self._store.list_state(namespace, now=self.now, prefix=prefix, after=after)
            found.update(page.items)
            after = page.next
            if after is None:
                break
        for (space, key), seen in self._seen.items():
            if space == namespace and key.startswith(prefix):
                (found.add if self._lives(seen) else found.discard)(key)
        return sorted(found)

    def count(self, root: str) -> int:
        """How many keys there are in all namespaces that begin with this."""
        if root not in self._counts:
            own = sum(count for namespace, count in self._growth.items() if namespace.startswith(root))
            self._counts[root] = self._store.count_state(root, self.now) + own
        return self._counts[root]

    def _look(self, namespace: str, key: str) -> _Seen:
        seen = self._seen.get((namespace, key))
        if seen is None:
            row = self._store.get_state(namespace, key)
            seen = _Seen(0, None, None) if row is None else _Seen(row.version, row.value, row.expires_at)
            self._seen[namespace, key] = seen
        return seen

    def _lives(self, seen: _Seen) -> bool:
        return seen.value is not None and (seen.expires_at is None or seen.expires_at > self.now)

    def _size(self, seen: _Seen) -> int:
        return len(seen.value) if seen.changed and seen.value is not None else 0

    def _grow(self, namespace: str, by: int) -> None:
        self._growth[namespace] = self._growth.get(namespace, 0) + by
        for root in self._counts:
            if namespace.startswith(root):
                self._counts[root] += by
