"""What the databases of scripts have in common: what one can do, the arguments that it takes, and how much it may give."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from holdfast.capabilities._kinds import is_whole
from holdfast.sandbox import BigInt, HostError, Undefined

LARGEST_VALUE: Final = 1 << 20
"""Bytes of an argument, and of a statement; with SQLite, of anything."""

_LARGEST_INTEGER: Final = 1 << 63
_MOST_ARGUMENTS: Final = 10_000


class Caps(NamedTuple):
    """How much a statement may give."""

    rows: int
    bytes: int


class Done(NamedTuple):
    """What came of a statement. `rows` are there if it gives some."""

    affected: int
    last_id: int
    rows: list[dict[str, Any]] | None


class OpenDatabase(Protocol):
    """A connection, for one thread at a time. All raise `HostError`."""

    @property
    def in_transaction(self) -> bool:
        """Whether there is a transaction that has not ended. None is left if the connection was lost."""

    def is_usable(self) -> bool:
        """Whether it can be used, as far as one can tell without asking the database."""

    def query(self, sql: str, args: Sequence[Any]) -> list[dict[str, Any]]:
        """The rows of a statement that changes nothing, which is made sure of."""

    def exec(self, sql: str, args: Sequence[Any]) -> Done:
        """Does a statement, wholly or not at all."""

    def begin(self) -> None: ...

    def commit(self) -> None:
        """Ends the transaction. What cannot be committed is rolled back, and raises."""

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Rows:
    """Rows as they come, until there are too many."""

    def __init__(self, caps: Caps) -> None:
        self._caps = caps
        self._size = 0
        self.found: list[dict[str, Any]] = []

    def count(self, names: Sequence[str], size: int) -> None:
        """Count one more row before it is decoded. `size` is that of the values. Names count too: each row has them."""
        self._size += size + sum(map(len, names))
        if len(self.found) == self._caps.rows or self._size > self._caps.bytes:
            raise too_large(self._caps)

    def add(self, names: Sequence[str], row: Sequence[Any], size: int) -> None:
        """Count a row and keep it."""
        self.count(names, size)
        self.found.append(dict(zip(names, row, strict=True)))


def too_large(caps: Caps) -> HostError:
    message = f"the result has more than {caps.rows} rows or {caps.bytes} bytes: ask for less"
    return HostError(message, code="RESULT_TOO_LARGE")


def bound(args: Sequence[Any]) -> list[Any]:
    """Arguments as databases take them: None, bool, int, float, str or bytes. Lists among them are flattened, once."""
    flat: list[Any] = []
    for arg in args:
        flat += arg if isinstance(arg, list | tuple) else [arg]
    if len(flat) > _MOST_ARGUMENTS:
        raise HostError(f"a statement has at most {_MOST_ARGUMENTS} arguments", code="INVALID_ARGUMENT")
    return [_bound(value) for value in flat]


def _bound(value: Any) -> Any:
    if value is None or value is Undefined:
        return None
    if isinstance(value, BigInt):
        value = int(value)
    if type(value) in (bool, float) or (type(value) is int and -_LARGEST_INTEGER <= value < _LARGEST_INTEGER):
        return value
    if type(value) in (str, bytes) and len(value) <= LARGEST_VALUE and (isinstance(value, bytes) or is_whole(value)):
        return value
    message = f"an argument is null, true or false, a number, text or bytes, of at most {LARGEST_VALUE}"
    raise HostError(message, code="INVALID_ARGUMENT")
