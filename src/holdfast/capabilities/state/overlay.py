"""What a step does to the state. Nobody else sees it before the step is committed, and if it is rolled back nobody ever does.

A key is read from the store once in a step, and keeps the value that it had then, but for what the step itself changes. Whoever changes a
key after having read it expects to find it so at the commit. If another session was faster, the step is run again. What is written
without having been read is written whatever is there.

Old values are kept only up to a number of bytes. Of further keys the step keeps the version alone, and reads the value again if it is
asked for; a value that has changed meanwhile is `STATE_CONFLICT`, so a step never sees two values of one key.
"""

import sys
from collections.abc import Callable
from typing import Final

from holdfast.sandbox import HostError
from holdfast.store import StateWrite, Store

_MOST_BYTES: Final = 8 * 1024 * 1024
"""What one step may write, in all keys together, as it lies in memory."""
_MOST_KEPT: Final = 4 * 1024 * 1024
"""Bytes of values that one step keeps of what it has read."""
_MOST_SEEN: Final = 64 * 1024 * 1024
"""Bytes of names of keys that one step may read or write."""
_MOST_LISTED: Final = 64 * 1024 * 1024
"""Bytes of names that are listed at once."""
_ENTRY: Final = 300
"""Bytes that a key takes besides its name."""


class _Seen:
    """A key, as the step sees it. `value` is JSON; None: there is none, or it is not kept, if `exists`."""

    __slots__ = ("changed", "exists", "expires_at", "read", "value", "version")

    def __init__(self, version: int, exists: bool, expires_at: int | None) -> None:
        self.version, self.exists, self.expires_at = version, exists, expires_at
        self.value: str | None = None
        self.read = self.changed = False


class Overlay:
    """The state, as the step that runs sees it. One thread at a time may use it."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._counts: dict[str, int] = {}
        self._growth: dict[str, int] = {}
        self._bytes = self._kept = self._names = 0
        """Bytes in memory: of what is written, of what was read, and of names."""

    @property
    def now(self) -> int:
        """By which lifetimes are judged."""
        return int(self._clock())

    def clear(self) -> None:
        """A step begins, or what it did so far is in the store."""
        if self._seen or self._counts:
            self._seen, self._counts, self._growth = {}, {}, {}
            self._bytes = self._kept = self._names = 0

    def writes(self) -> list[StateWrite]:
        """What is to be committed."""
        return [
            StateWrite(namespace, key, seen.value, seen.version if seen.read or seen.value is None else None, seen.expires_at)
            for (namespace, key), seen in self._seen.items()
            if seen.changed and (seen.version or seen.value is not None)
        ]

    def get(self, namespace: str, key: str) -> tuple[str, int | None] | None:
        """A value as JSON, and until when it is there."""
        seen, value = self._seen.get((namespace, key)), None
        if seen is None:
            seen, value = self._load(namespace, key)
        seen.read = True
        return (value or self._value(namespace, key, seen), seen.expires_at) if self._lives(seen) else None

    def glance(self, namespace: str, key: str) -> str | None:
        """A value as JSON, for whoever looks through many: it is not kept for the step, so the next look may find another."""
        seen = self._seen.get((namespace, key))
        if seen is not None:
            return self._value(namespace, key, seen) if self._lives(seen) else None
        row = self._store.get_state(namespace, key)
        return None if row is None or (row.expires_at is not None and row.expires_at <= self.now) else row.value

    def has(self, namespace: str, key: str) -> bool:
        """Whether it is there: for whoever is about to write it in any case."""
        return self._lives(self._look(namespace, key))

    def put(self, namespace: str, key: str, value: str, expires_at: int | None) -> None:
        seen = self._look(namespace, key)
        grown = self._bytes + _size(value) - self._written(seen)
        if grown > _MOST_BYTES:
            raise HostError(f"a step writes at most {_MOST_BYTES} bytes of state", code="STATE_TOO_LARGE")
        self._grow(namespace, 0 if self._lives(seen) else 1)
        self._bytes = grown
        self._change(seen, value, expires_at)

    def delete(self, namespace: str, key: str) -> bool:
        """Whether it was there."""
        if self.get(namespace, key) is None:
            return False
        seen = self._look(namespace, key)
        self._grow(namespace, -1)
        self._bytes -= self._written(seen)
        self._change(seen, None, None)
        return True

    def keys(self, namespace: str, prefix: str) -> list[str]:
        """Sorted by code points."""
        found: set[str] = set()
        after: str | None = None
        size = 0
        while True:
            page = self._store.list_state(namespace, now=self.now, prefix=prefix, after=after)
            size += sum(map(sys.getsizeof, page.items))
            if size > _MOST_LISTED:
                raise HostError("there are too many keys to list at once; ask by a longer prefix", code="STATE_TOO_LARGE")
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
        return self._seen.get((namespace, key)) or self._load(namespace, key)[0]

    def _load(self, namespace: str, key: str) -> tuple[_Seen, str | None]:
        """A key that the step has not used yet, and its value, which is kept if there is room for it."""
        self._names += _ENTRY + sys.getsizeof(namespace) + sys.getsizeof(key)
        if self._names > _MOST_SEEN:
            raise HostError("a step uses too many keys of the state; use fewer in one step", code="STATE_TOO_LARGE")
        row = self._store.get_state(namespace, key)
        seen = self._seen[namespace, key] = _Seen(0, False, None) if row is None else _Seen(row.version, True, row.expires_at)
        if row is None:
            return seen, None
        if self._kept + _size(row.value) <= _MOST_KEPT:
            self._kept += _size(row.value)
            seen.value = row.value
        return seen, row.value

    def _value(self, namespace: str, key: str, seen: _Seen) -> str:
        """The value of a key that exists. One that is not kept is read again."""
        if seen.value is not None:
            return seen.value
        row = self._store.get_state(namespace, key)
        if row is None or row.version != seen.version:
            raise HostError("state: another session has changed a key that this step uses", code="STATE_CONFLICT")
        return row.value

    def _change(self, seen: _Seen, value: str | None, expires_at: int | None) -> None:
        if not seen.changed and seen.value is not None:
            self._kept -= _size(seen.value)
        seen.value, seen.expires_at, seen.exists, seen.changed = value, expires_at, value is not None, True

    def _lives(self, seen: _Seen) -> bool:
        return seen.exists and (seen.expires_at is None or seen.expires_at > self.now)

    def _written(self, seen: _Seen) -> int:
        return _size(seen.value) if seen.changed and seen.value is not None else 0

    def _grow(self, namespace: str, by: int) -> None:
        self._growth[namespace] = self._growth.get(namespace, 0) + by
        for root in self._counts:
            if namespace.startswith(root):
                self._counts[root] += by


def _size(value: str) -> int:
    """Bytes of a text in memory: a single emoji makes each character of a text take four."""
    return sys.getsizeof(value) - _EMPTY


_EMPTY: Final = sys.getsizeof("")
