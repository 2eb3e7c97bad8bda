"""What a host offers to the scripts in a sandbox: named functions, and modules by a loader. By default nothing."""

import json
import posixpath
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol

from holdfast.sandbox import values
from holdfast.sandbox._errors import GuestFault, HostError, ValueRefused

HostFunction = Callable[..., Any]

LARGEST_REQUEST: Final = 16 << 20
"""The most bytes of one host call; see `jsontext.Bounds` for what they may hold."""
_LONGEST_NAME: Final = 4096
_LONGEST_SHOWN: Final = 200
_decode: Final = json.JSONDecoder().raw_decode


def called(request: bytes) -> str:
    """The name of the function that a call is for. One that is too long is cut off: no function has such a name."""
    head = request[:_LONGEST_NAME].decode(errors="replace")
    try:
        return str(_decode(head, 1)[0])
    except ValueError:
        return head[2:]


class Module(NamedTuple):
    """A module that a script may load.

    `module` is an ES module, `commonjs` a CommonJS one, `either` the latter if it compiles as that and else the former; `script` is a
    Lua chunk, `json` data. `functions` is a module of host functions: `names` are its members, and each is the host function called
    "<module>.<member>".
    """

    kind: Literal["module", "commonjs", "either", "script", "json", "functions"]
    source: str = ""
    names: tuple[str, ...] = ()


class Loader(Protocol):
    """Finds modules for `import` and `require`. Raise `HostError` for what is not there."""

    def resolve(self, specifier: str, referrer: str, kind: str) -> str:
        """The full name of what `specifier` means in the file `referrer`; `kind` is "import" or "require"."""

    def load(self, name: str) -> Module:
        """The module of a full name."""


class Modules:
    """A loader over a fixed set of modules. Names that begin with a dot are relative to the file that names them.

    >>> modules = Modules({"lib/a.js": Module("module", "export default 1")})
    >>> modules.resolve("./a.js", "lib/main.js", "import")
    'lib/a.js'
    """

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self._modules = modules

    def resolve(self, specifier: str, referrer: str, kind: str) -> str:
        name = specifier
        if specifier.startswith("."):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(referrer), specifier))
        if name not in self._modules:
            raise HostError(f"Invalid module: there is no module {specifier!r}", code="MODULE_NOT_FOUND")
        return name

    def load(self, name: str) -> Module:
        return self._modules[name]

    def __contains__(self, name: str) -> bool:
        return name in self._modules


class _NoModules:
    """The loader of a host that offers none."""

    def resolve(self, specifier: str, referrer: str, kind: str) -> str:
        raise HostError(f"Invalid module: there is no module {specifier!r}", code="MODULE_NOT_FOUND")

    def load(self, name: str) -> Module:
        raise HostError(f"Invalid module: there is no module {name!r}", code="MODULE_NOT_FOUND")


class Host:
    """Functions by name, and a loader of modules.

    A function gets the script's arguments as Python values. What it returns is the value of the call; a `HostError` that it raises
    is raised in the script. Any other exception ends the step and closes the sandbox, since the script's state is then in doubt.

    A script's clock stands still but for host calls: after one it is moved by the time the call took, or to what `clock` says, in
    milliseconds since 1970.
    """

    def __init__(
        self,
        functions: Mapping[str, HostFunction] | None = None,
        modules: Loader | None = None,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.functions: Mapping[str, HostFunction] = functions or {}
        self.modules: Loader = modules or _NoModules()
        self._clock = clock

    def answer(self, operation: int, request: bytes, now: float) -> tuple[bytes, float]:
        """Does what a guest asks for while it runs. Gives a status byte and JSON, and the time after that in milliseconds."""
        begun = time.monotonic()
        reply = self._answer(operation, request)
        return reply, self._clock() if self._clock else now + (time.monotonic() - begun) * 1000

    def _answer(self, operation: int, request: bytes) -> bytes:
        try:
            self._check(operation, request)
            return b"v" + values.encode(self._perform(operation, values.decode(request)))
        except HostError as error:
            return self.refusal(error)
        except ValueRefused as error:
            return b"e" + values.encode({"code": error.code, "message": str(error)})

    def refusal(self, error: HostError) -> bytes:
        """The reply that raises an error in the script."""
        return b"e" + values.encode({"code": error.script_code, "message": str(error)})

    def _check(self, operation: int, request: bytes) -> None:
        """Refuses before anything is decoded: Python values take up to twenty times the room of their text."""
        if len(request) > LARGEST_REQUEST:
            raise too_large(len(request))
        if operation == ord("c"):
            name = called(request)
            if name not in self.functions:
                raise HostError(f"there is no host function {name[:_LONGEST_SHOWN]!r}", code="HOST_FUNCTION_NOT_FOUND")

    def _perform(self, number: int, request: Any) -> Any:
        """Does what is asked for, if it is one of the three things that a guest asks for."""
        operation, shape = _OPERATIONS.get(number, (None, ()))
        if operation is None or type(request) is not list or tuple(map(type, request)) != shape:
            raise GuestFault("the guest asks for what makes no sense")
        return operation(self, *request)

    def _call(self, name: str, arguments: list[Any]) -> Any:
        function = self.functions.get(name)
        if function is None:
            raise GuestFault("the guest asks for what makes no sense")
        return function(*arguments)

    def _resolve(self, specifier: str, referrer: str, kind: str) -> str:
        return self.modules.resolve(specifier, referrer, kind)

    def _load(self, name: str) -> dict[str, Any]:
        module = self.modules.load(name)
        if module.kind == "functions":
            return {"kind": "functions", "names": list(module.names)}
        return {"kind": module.kind, "source": module.source}


_OPERATIONS: Final[dict[int, tuple[Callable[..., Any], tuple[type, ...]]]] = {
    ord("c"): (Host._call, (str, list)),
    ord("r"): (Host._resolve, (str, str, str)),
    ord("l"): (Host._load, (str,)),
}
"""What a guest may ask for: how it is done, and what the request consists of."""


def too_large(size: int) -> HostError:
    """The error of a call with more bytes than any may have."""
    return HostError(f"a host call of {size} bytes is too large; at most {LARGEST_REQUEST} are taken", code="REQUEST_TOO_LARGE")
