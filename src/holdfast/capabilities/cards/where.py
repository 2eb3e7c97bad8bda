"""Which cards are meant, and in which order: the filters and orders that scripts write.

A filter is an object. A key leads into what it is asked of; an object that has only operators compares what is there, any other value is
what it must be equal to. `_and` and `_or` have lists of filters, `_not` has one.

A filter may have many comparisons, and each may go through megabytes. So whoever asks gives a `Check`, which raises if there is no time
left, and which is called for each comparison, and within those of long texts.
"""

from collections.abc import Callable, Mapping
from functools import cmp_to_key, partial
from typing import Any, Final, NamedTuple

from holdfast.sandbox import HostError

Test = Callable[[Any], bool]
Check = Callable[[], None]
_NOTHING: Final = object()
_MOST: Final = 1_000
"""Values of a filter: all of them are looked at for each card."""
_MOST_KEYS: Final = 16
"""Of an order."""
_LONGEST_COMPARED: Final = 1_000
"""Characters by which texts are put in order: they are kept for all cards at once."""
_WINDOW: Final = 1 << 16
"""Characters of a text that are searched at a time: nothing else runs meanwhile."""


def matcher(where: Any, check: Check) -> Test:
    """What says whether a value is one of those that a filter means. None means all."""
    if where is None:
        return _all
    if _count(where) > _MOST:
        raise _refused(f"where has more than {_MOST} values")
    return _filter(where, (), check)


def _count(where: Any) -> int:
    """How many values it has, at the most."""
    if isinstance(where, dict | list):
        return sum(map(_count, where.values() if isinstance(where, dict) else where)) or 1
    return 1


def _all(value: Any) -> bool:
    return True


def _filter(where: Any, path: tuple[str, ...], check: Check) -> Test:
    if where == []:  # an empty table of Lua is either
        where = {}
    if not isinstance(where, dict):
        raise _refused("where must be an object")
    tests: list[Test] = []
    for key, value in where.items():
        if key in ("_and", "_or"):
            some = [_filter(one, path, check) for one in _listed(key, value)]
            tests.append(_every(some) if key == "_and" else _any(some))
        elif key == "_not":
            tests.append(_none(_filter(value, path, check)))
        elif isinstance(value, dict) and value and all(name in _OPERATORS for name in value):
            tests.extend(_comparison((*path, key), name, wanted, check) for name, wanted in value.items())
        elif isinstance(value, dict):
            tests.append(_filter(value, (*path, key), check))
        else:
            tests.append(_comparison((*path, key), "eq", value, check))
    return tests[0] if len(tests) == 1 else _every(tests)


def _listed(key: str, value: Any) -> list[Any]:
    if value == {}:
        return []
    if not isinstance(value, list):
        raise _refused(f"where: {key} must be a list")
    return value


def _every(tests: list[Test]) -> Test:
    return lambda value: all(test(value) for test in tests)


def _any(tests: list[Test]) -> Test:
    return lambda value: any(test(value) for test in tests)


def _none(test: Test) -> Test:
    return lambda value: not test(value)


def _comparison(path: tuple[str, ...], name: str, wanted: Any, check: Check) -> Test:
    if name in ("in", "nin"):
        wanted = _listed(name, wanted)
    compare = partial(_contains, check=check) if name == "contains" else _OPERATORS[name]

    def test(value: Any) -> bool:
        check()
        return compare(_find(value, path), wanted)

    return test


def _find(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, Mapping) or name not in value:
            return _NOTHING
        value = value[name]
    return value


# ---- operators: what is there, or nothing, and what is wanted


def _equal(found: Any, wanted: Any) -> bool:
    """A number is equal to a number however both are written; true is no number."""
    if isinstance(found, bool) or isinstance(wanted, bool):
        return found is wanted
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_equal, found, wanted))
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(_equal(found[key], wanted[key]) for key in found)
    return bool(found == wanted)


def _is_in(found: Any, wanted: Any) -> bool:
    return any(_equal(found, one) for one in wanted)


def _order(found: Any, wanted: Any) -> int | None:
    """-1, 0 or 1; None: they cannot be compared."""
    same = isinstance(found, bool) == isinstance(wanted, bool)
    if same and any(isinstance(found, kind) and isinstance(wanted, kind) for kind in (str, int | float)):
        return bool(found > wanted) - bool(found < wanted)
    return None


def _ordered(*allowed: int) -> Callable[[Any, Any], bool]:
    return lambda found, wanted: _order(found, wanted) in allowed


def _contains(found: Any, wanted: Any, check: Check) -> bool:
    """Some searches take the product of both lengths, so a long text is searched piece by piece."""
    if not isinstance(found, str) or not isinstance(wanted, str):
        return False
    step = max(_WINDOW, len(wanted))
    for start in range(0, len(found) + 1, step):
        check()
        if found.find(wanted, start, start + step + len(wanted)) >= 0:
            return True
    return False


def _starts_with(found: Any, wanted: Any) -> bool:
    return isinstance(found, str) and isinstance(wanted, str) and found.startswith(wanted)


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": _equal,
    "ne": lambda found, wanted: not _equal(found, wanted),
    "lt": _ordered(-1),
    "lte": _ordered(-1, 0),
    "gt": _ordered(1),
    "gte": _ordered(1, 0),
    "in": _is_in,
    "nin": lambda found, wanted: not _is_in(found, wanted),
    "exists": lambda found, wanted: (found is not _NOTHING) == (wanted is not False),
    "contains": partial(_contains, check=lambda: None),
    "starts_with": _starts_with,
}


# ---- orders


class _Key(NamedTuple):
    path: tuple[str, ...]
    descending: bool


def orders(given: Any) -> list[_Key]:
    """What `order_by` says: a path with dots, or a list of such; a minus before it turns it around. None, and an empty list: nothing."""
    if given is None or given == {}:
        return []
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list):
        raise _refused("order_by must be a string or array of strings")
    if len(names) > _MOST_KEYS:
        raise _refused(f"order_by has more than {_MOST_KEYS} keys")
    return [_key(name) for name in names]


def _key(name: Any) -> _Key:
    if not isinstance(name, str):
        raise _refused("order_by array must contain strings")
    path = tuple(name.removeprefix("-").split("."))
    if not all(path):
        raise _refused(f"invalid order_by key: '{name[:40]}'")
    return _Key(path, name.startswith("-"))


def sorting(keys: list[_Key], check: Check) -> Callable[[Any], Any]:
    """What `sort` takes as its key, for lists of what `looked_up` gave. What is missing comes last, whichever way the order goes."""

    def compare(first: tuple[Any, ...], second: tuple[Any, ...]) -> int:
        check()
        for key, one, other in zip(keys, first, second, strict=True):
            if one is _NOTHING or other is _NOTHING:
                order = (one is _NOTHING) - (other is _NOTHING)
            else:
                order = (_order(one, other) or 0) * (-1 if key.descending else 1)
            if order:
                return order
        return 0

    return cmp_to_key(compare)


def looked_up(keys: list[_Key], value: Any) -> tuple[Any, ...]:
    """What a value has of all that an order asks for, as far as that can be compared."""
    return tuple(_comparable(_find(value, key.path)) for key in keys)


def _comparable(found: Any) -> Any:
    if isinstance(found, str):
        return found[:_LONGEST_COMPARED]
    return None if isinstance(found, dict | list) else found


def _refused(message: str) -> HostError:
    return HostError(message, code="INVALID_ARGUMENT")
