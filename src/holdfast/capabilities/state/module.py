"""The module `state`: values by key, which sessions share and which outlive them. What a step changes is committed with the step.

Values are JSON. All functions see the state as the step does (`overlay.py`), so that several of them are one change. Reading gives a mark
of what was read; `replace` writes only if that is still there, whatever has happened in between, also if the script has paused.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from holdfast.capabilities._json import folded, plain, read, written
from holdfast.capabilities.native import NativeModule, Scope, effect
from holdfast.capabilities.state.glue import JAVASCRIPT, LUA
from holdfast.domain import EffectKind, InvalidValue, check_namespace, hidden_root, session_root, shared_root, template_root
from holdfast.sandbox import HostError, jsontext

_LONGEST_KEY: Final = 512
_FIRST_PRINTABLE: Final = " "
_MOST_KEYS: Final = 1_000_000
_MOST_BYTES: Final = 1024 * 1024
_LONGEST_MS: Final = 100 * 366 * 86_400_000
_SAFE: Final = 1 << 53


@dataclass(frozen=True, slots=True)
class StateConfig:
    """Which namespace it is, and how much may be in it."""

    namespace: str | None = None
    session: bool = False
    spaces: bool = False
    max_keys: int = 10_000
    max_value_bytes: int = 65_536

    def __post_init__(self) -> None:
        if self.namespace is not None:
            if self.session:
                raise InvalidValue("namespace must not be given if each session has its own")
            try:
                check_namespace(self.namespace)
            except InvalidValue:
                raise InvalidValue("namespace must be a name of at most 100 characters, without / \\ .. or NUL") from None
        if not 1 <= self.max_keys <= _MOST_KEYS:
            raise InvalidValue(f"max_keys must be from 1 to {_MOST_KEYS}")
        if not 1 <= self.max_value_bytes <= _MOST_BYTES:
            raise InvalidValue(f"max_value_bytes must be from 1 to {_MOST_BYTES}")


@dataclass(frozen=True, slots=True)
class Lifetime:
    """How long a value is kept. Both names mean the same."""

    ttlMs: float | None = None  # noqa: N815 - as scripts write it
    ttl_ms: float | None = None

    def until(self, now: int) -> int | None:
        """When its time is up; None: never."""
        ttl = self.ttlMs if self.ttl_ms is None else self.ttl_ms
        if ttl is None:
            return None
        if not 0 < ttl <= _LONGEST_MS:
            raise HostError(
                "state: ttlMs must be a positive number of milliseconds, at most 100 years", code="INVALID_ARGUMENT"
            )
        return now + math.ceil(ttl)


class State(NativeModule):
    """Values by key, in the store."""

    name: ClassVar[str] = "state"
    description: ClassVar[str] = "Values by key that sessions share and that outlive them"
    config_type: ClassVar[type[Any]] = StateConfig
    confined_fields: ClassVar[frozenset[str]] = frozenset(StateConfig.__dataclass_fields__)
    javascript: ClassVar[str] = JAVASCRIPT
    lua: ClassVar[str] = LUA
    members: ClassVar[tuple[str, ...]] = (
        "get",
        "set",
        "has",
        "keys",
        "delete",
        "set_nx",
        "incr",
        "update",
        "compare_and_set",
        "namespace",
    )
    config: StateConfig

    def __init__(self, scope: Scope, config: StateConfig) -> None:
        super().__init__(scope, config)
        if config.session:
            self._root = session_root(scope.session_id)
        elif config.namespace is not None:
            self._root = shared_root(config.namespace, scope.tenant)
        else:
            self._root = template_root(scope.template_id)

    @effect(EffectKind.READ)
    def space(self, name: str) -> None:
        """Refuses a namespace that the script may not have."""
        self._namespace(name)

    @effect(EffectKind.STATE)
    def read(self, key: str, space: str | None = None) -> dict[str, Any]:
        found = self._read(self._namespace(space), key)
        if found is None:
            return {"found": False, "mark": ""}
        return {"found": True, "value": read(found[0]), "mark": _mark(found[0])}

    @effect(EffectKind.STATE)
    def has(self, key: str, space: str | None = None) -> bool:
        return self._read(self._namespace(space), key) is not None

    @effect(EffectKind.STATE)
    def keys(self, prefix: str = "", space: str | None = None) -> list[str]:
        return self.scope.state.keys(self._namespace(space), prefix)

    @effect(EffectKind.STATE)
    def set(self, key: str, value: Any = None, options: Lifetime | None = None, space: str | None = None) -> None:
        self._put(self._namespace(space), key, self._text(value), self._until(options))

    @effect(EffectKind.STATE)
    def set_nx(self, key: str, value: Any = None, options: Lifetime | None = None, space: str | None = None) -> bool:
        namespace, text, until = self._namespace(space), self._text(value), self._until(options)
        if self._read(namespace, key) is not None:
            return False
        self._put(namespace, key, text, until)
        return True

    @effect(EffectKind.STATE)
    def delete(self, key: str, space: str | None = None) -> bool:
        return self.scope.state.delete(self._namespace(space), _key(key))

    @effect(EffectKind.STATE)
    def incr(self, key: str, delta: int | float = 1, default: int | float = 0, space: str | None = None) -> int | float:
        namespace = self._namespace(space)
        found = self._read(namespace, key)
        value = default if found is None else read(found[0])
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise HostError(f"incr: value at '{key}' is not a number", code="STATE_NOT_A_NUMBER")
        total = value + delta
        if not math.isfinite(total) or (isinstance(total, int) and abs(total) > _SAFE):
            raise HostError(f"incr: value at '{key}' would be too large", code="STATE_NOT_A_NUMBER")
        self._put(namespace, key, json.dumps(total), None if found is None else found[1])
        return total

    @effect(EffectKind.STATE)
    def compare_and_set(
        self, key: str, expected: Any = None, value: Any = None, options: Lifetime | None = None, space: str | None = None
    ) -> bool:
        namespace, wanted = self._namespace(space), self._text(expected)
        found = self._read(namespace, key)
        if _comparable(wanted) != _comparable("null" if found is None else found[0]):
            return False
        self._change(namespace, key, found, value, options)
        return True

    @effect(EffectKind.STATE)
    def replace(self, key: str, mark: str, value: Any = None, last: bool = False, space: str | None = None) -> bool:
        """Writes if what is there bears this mark. With `last` it raises if not."""
        namespace = self._namespace(space)
        found = self._read(namespace, key)
        if mark != ("" if found is None else _mark(found[0])):
            if last:
                raise HostError("state: others change this key again and again", code="STATE_CONFLICT")
            return False
        self._change(namespace, key, found, value, None)
        return True

    # ---- what these share

    def _namespace(self, space: str | None) -> str:
        """Its name in the store. One that is named by the script lies in its own."""
        if space is None:
            return self._root
        if not self.config.spaces:
            raise HostError("state: the template does not allow other namespaces", code="NAMESPACE_NOT_ALLOWED")
        try:
            return f"{self._root}{check_namespace(space)}/"
        except InvalidValue as error:
            raise HostError(str(error), code="INVALID_NAMESPACE") from None

    def _read(self, namespace: str, key: str) -> tuple[str, int | None] | None:
        return self.scope.state.get(namespace, _key(key))

    def _put(self, namespace: str, key: str, text: str, until: int | None) -> None:
        state = self.scope.state
        if not state.has(namespace, _key(key)) and self._is_full():
            raise HostError(f"state: there are {self.config.max_keys} keys already", code="STATE_TOO_LARGE")
        state.put(namespace, key, text, until)

    def _is_full(self) -> bool:
        """What lies below its root and is not its own, such as cards, does not count."""
        state, most = self.scope.state, self.config.max_keys
        return state.count(self._root) >= most and state.count(self._root) - state.count(hidden_root(self._root)) >= most

    def _change(
        self, namespace: str, key: str, found: tuple[str, int | None] | None, value: Any, options: Lifetime | None
    ) -> None:
        """Writes what was read before. It keeps its lifetime, unless another is given."""
        until = self._until(options)
        if until is None and found is not None:
            until = found[1]
        self._put(namespace, key, self._text(value), until)

    def _until(self, options: Lifetime | None) -> int | None:
        return None if options is None else options.until(self.scope.state.now)

    def _text(self, value: Any) -> str:
        text, size = written(plain(value, "state"))
        if size > self.config.max_value_bytes:
            raise HostError(f"state: a value has at most {self.config.max_value_bytes} bytes", code="STATE_TOO_LARGE")
        return text


def _key(key: str) -> str:
    if not key or min(key) < _FIRST_PRINTABLE or len(key.encode()) > _LONGEST_KEY:
        message = f"state: a key has 1 to {_LONGEST_KEY} bytes, and no control characters"
        raise HostError(message, code="INVALID_ARGUMENT")
    return key


def _mark(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


_sorted: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def _comparable(text: str) -> str:
    """The same for what is equal to a script: in whatever order keys are, and however a number is written."""
    return jsontext.dumps(folded(read(text)), _sorted, sort=True)
