"""One description of a call, two ways to make it.

A method of a group says what to ask: it returns a `Call`. What its caller gets depends on the client that the group belongs to: the
result itself, or something to await. So every route is described once, in a method with its own signature and docstring, and type
checkers know both.

    class Sessions(Group[Way]):
        @verb
        def get(self, session: UUID | str) -> Call[Session]: ...

    client.sessions.get(id)              # Session, if client is a Client
    await client.sessions.get(id)        # Session, if client is an AsyncClient
"""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from holdfast.client._awaiting import Awaiting
from holdfast.client._blocking import Blocking
from holdfast.client._calls import Call, Item, Page, Result
from holdfast.client._follow import Stream
from holdfast.client.models import Event

Way = TypeVar("Way", bound=Blocking | Awaiting)
Params = ParamSpec("Params")
Described = TypeVar("Described", bound=Call[Any] | Stream)


class Group(Generic[Way]):
    """Calls that belong together."""

    def __init__(self, way: Way) -> None:
        self._way: Way = way


class _Method(Generic[Params, Described]):
    """A method that describes. As an attribute of a group it is a function that does what is described."""

    def __init__(self, describe: Callable[Concatenate[Any, Params], Described]) -> None:
        self._describe = describe
        functools.update_wrapper(self, describe)  # type: ignore[arg-type]

    def _bound(self, group: Group[Any], do: Callable[[Described], Any]) -> Callable[Params, Any]:
        describe: Callable[Params, Described] = functools.partial(self._describe, group)

        def method(*args: Params.args, **kwargs: Params.kwargs) -> Any:
            return do(describe(*args, **kwargs))

        functools.update_wrapper(method, self._describe)
        method.__wrapped__ = describe  # type: ignore[attr-defined]  # without self, for whoever shows signatures
        return method


class verb(_Method[Params, Call[Result]], Generic[Params, Result]):  # noqa: N801
    """Gives the result of the call."""

    @overload
    def __get__(self, group: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, group: Group[Blocking], owner: type[Any]) -> Callable[Params, Result]: ...

    @overload
    def __get__(self, group: Group[Awaiting], owner: type[Any]) -> Callable[Params, Coroutine[Any, Any, Result]]: ...

    def __get__(self, group: Group[Any] | None, owner: type[Any]) -> Any:
        return self if group is None else self._bound(group, group._way.send)


class each(_Method[Params, Call[Page[Item]]], Generic[Params, Item]):  # noqa: N801
    """Gives all items of the list that the call asks for, a page at a time."""

    @overload
    def __get__(self, group: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, group: Group[Blocking], owner: type[Any]) -> Callable[Params, Generator[Item, None, None]]: ...

    @overload
    def __get__(self, group: Group[Awaiting], owner: type[Any]) -> Callable[Params, AsyncGenerator[Item, None]]: ...

    def __get__(self, group: Group[Any] | None, owner: type[Any]) -> Any:
        return self if group is None else self._bound(group, group._way.pages)


class stream(_Method[Params, Stream]):  # noqa: N801
    """Gives the events of the stream as they happen."""

    @overload
    def __get__(self, group: None, owner: type[Any]) -> Self: ...

    @overload
    def __get__(self, group: Group[Blocking], owner: type[Any]) -> Callable[Params, Generator[Event, None, None]]: ...

    @overload
    def __get__(self, group: Group[Awaiting], owner: type[Any]) -> Callable[Params, AsyncGenerator[Event, None]]: ...

    def __get__(self, group: Group[Any] | None, owner: type[Any]) -> Any:
        return self if group is None else self._bound(group, group._way.follow)
