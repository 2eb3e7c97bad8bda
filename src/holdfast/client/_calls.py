"""Calls as values: what is asked of the daemon, and how its answer is read. No I/O here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import cache
from typing import Any, Final, Generic, NamedTuple, TypeVar, overload
from urllib.parse import quote
from uuid import UUID, uuid4

from pydantic import TypeAdapter

from holdfast.domain import Budget, InvalidValue, Limits, parse_id, parse_query_id, query_id

Result = TypeVar("Result")
Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)

ROOT: Final = "api/v1"
_LONGEST_KEY: Final = 200


class Answer(NamedTuple):
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Call(Generic[Result]):
    """One request. `read` makes the result of an answer, and raises `ValueError` for one that it cannot read.

    `key` is the idempotency key, the same however often the request is sent. `slow` calls may run scripts: they have a timeout of
    their own. `fine` are statuses that are a result although they say that something is wrong.
    """

    method: str
    path: str
    read: Callable[[Answer], Result]
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    key: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    slow: bool = False
    extra_s: float = 0.0
    fine: frozenset[int] = frozenset()

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice is sure to do it once."""
        return self.method == "GET" or self.key is not None


def look(
    where: str,
    read: Callable[[Answer], Result],
    *,
    extra_s: float = 0.0,
    fine: frozenset[int] = frozenset(),
    **given: Any,
) -> Call[Result]:
    """A GET. What is given becomes the query, without what is None or empty."""
    return Call("GET", where, read, query_of(given), extra_s=extra_s, fine=fine)


def change(
    method: str,
    where: str,
    read: Callable[[Answer], Result],
    body: Mapping[str, Any] | None = None,
    key: str | None = None,
    *,
    query: Mapping[str, Any] | None = None,
    background: bool = False,
) -> Call[Result]:
    """A request that changes something. It has an idempotency key: the caller's, or a fresh one."""
    headers = {"Prefer": "respond-async"} if background else {}
    content = None if body is None else json_of(body)
    return Call(method, where, read, query_of(query or {}), content, _key(key), headers, slow=True)


def _key(given: str | None) -> str:
    if given is None:
        return str(uuid4())
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST_KEY or not given.isascii() or not given.isprintable():
        raise InvalidValue(f"an idempotency key has 1 to {_LONGEST_KEY} printable ASCII characters")
    return given


# ---- parts of a request ------------------------------------------------------------------------------------------------------------


def path(*segments: str) -> str:
    """A path under the root of the API. Each segment is escaped: none of them can leave its place.

    >>> path("templates", "a/b", "modules")
    'api/v1/templates/a%2Fb/modules'
    """
    for segment in segments:
        if not isinstance(segment, str) or segment in ("", ".", ".."):
            raise InvalidValue(f"this cannot be part of an address: {segment!r:.80}")
        if not segment.isprintable():
            raise InvalidValue("a name has no control characters")
    return "/".join([ROOT, *(quote(segment, safe="") for segment in segments)])


def an_id(given: UUID | str, what: str) -> str:
    """The canonical form of an id."""
    return str(parse_id(given, what))


def some_id(given: UUID | str | None, what: str) -> str | None:
    """The canonical form of an id, if there is one."""
    return None if given is None else an_id(given, what)


def a_query(given: str | int) -> str:
    """The canonical form of a query's id."""
    return query_id(parse_query_id(given))


def query_of(given: Mapping[str, Any]) -> dict[str, str]:
    """The query of an address, without what is None or empty.

    >>> query_of({"status": "", "name": None, "limit": 0, "purge": True})
    {'limit': '0', 'purge': 'true'}
    """
    return {name: _word(value) for name, value in given.items() if value is not None and value != ""}


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, Enum) else value)


def given(**fields: Any) -> dict[str, Any]:
    """A body without the fields that are None: the daemon decides on those."""
    return {name: value for name, value in fields.items() if value is not None}


def json_of(value: Any) -> bytes:
    """As JSON, which has no NaN, and nothing but text for keys."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"this cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Budget):
        return value.as_dict()
    if isinstance(value, Limits):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"it has a {type(value).__name__}")


# ---- results -----------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page(Sequence[Item_co]):
    """Some of a list, in its order. `next` is the cursor of the following page; None: there is none."""

    items: tuple[Item_co, ...]
    next: str | None = None

    @overload
    def __getitem__(self, index: int) -> Item_co: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Item_co, ...]: ...

    def __getitem__(self, index: int | slice) -> Item_co | tuple[Item_co, ...]:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item_co]:
        return iter(self.items)


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def one(kind: type[Result]) -> Callable[[Answer], Result]:
    """Reads one resource."""
    shape: Any = kind

    def read(answer: Answer) -> Result:
        found: Result = _adapter(shape).validate_json(answer.content)
        return found

    return read


def page_of(kind: type[Item]) -> Callable[[Answer], Page[Item]]:
    """Reads a list, and where the next page begins."""
    shape: Any = tuple[kind, ...]  # type: ignore[valid-type]

    def read(answer: Answer) -> Page[Item]:
        found: tuple[Item, ...] = _adapter(shape).validate_json(answer.content)
        return Page(found, answer.headers.get("X-Next-Cursor") or None)

    return read


def text(answer: Answer) -> str:
    """Reads text."""
    return answer.content.decode()


def nothing(answer: Answer) -> None:
    """Reads nothing: that it worked is all there is to know. It is JSON all the same."""
    json.loads(answer.content)


def following(call: Call[Page[Item]], page: Page[Item]) -> Call[Page[Item]] | None:
    """The call for the next page. None: that was the last one, or the same would come again."""
    if page.next is None or page.next == call.query.get("cursor"):
        return None
    return replace(call, query={**call.query, "cursor": page.next})
