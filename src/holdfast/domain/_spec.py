"""What a version of a template is made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Self

from holdfast.domain._errors import InvalidValue
from holdfast.domain._limits import Limits

_MOST_ROOTS: Final = 100
_LONGEST_WORD: Final = 200


class SourceFile(NamedTuple):
    """A file by name."""

    filename: str
    text: str


class StartupFile(NamedTuple):
    """A file that runs before a session is used: once when the template is made, or in each session as it starts.

    One that is part of the template costs a session nothing. One that runs in each session may ask and use capabilities. By default it is
    part of the template if it can be. `baked` is set when a version is made, and says whether one that leaves it open became part of it.
    """

    filename: str
    text: str
    when: Literal["auto", "template", "session"] = "auto"
    baked: bool = False

    @property
    def in_template(self) -> bool:
        """Whether it is part of the template."""
        return self.when == "template" or (self.when == "auto" and self.baked)


class StartupPath(NamedTuple):
    """A file of the worktree that runs in each session as it starts, after the startup files that the template has itself.

    They run by `order_index`, and in the order in which they were added where that is the same. It is read when it runs.
    """

    id: str
    path: str
    order_index: int = 0
    mode: str = "eval"


class Capability(NamedTuple):
    """Something that sessions of a template may reach. Nothing is granted that is not named here.

    It has an id once it is part of a template, and keeps it from version to version. `by_operator` is set when it is granted: only an
    operator may grant what reaches the host, and a template of another tenant than the default has such a grant from nobody else.
    """

    kind: str
    name: str
    enabled: bool = True
    config: Mapping[str, Any] = {}
    id: str = ""
    by_operator: bool = False


def default_resolver() -> dict[str, Any]:
    """Where imports are looked for, unless a template says otherwise."""
    return {"roots": ["."], "extensions": [".js", ".mjs"], "allow_absolute_repo_imports": True}


def default_runtime() -> dict[str, Any]:
    """How scripts are run, unless a template says otherwise."""
    return {"esm": True, "strict": True, "console": True}


@dataclass(frozen=True, slots=True)
class TemplateSpec:
    """All parts of a version. `libraries` are given as text, `packages` by name, from the cache of libraries; these are loaded first.

    `exposed` are the native modules that scripts may require. Of a template that is not `active` no session is made.
    """

    language: str = "javascript"
    libraries: tuple[SourceFile, ...] = ()
    modules: tuple[SourceFile, ...] = ()
    startup: tuple[StartupFile, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    limits: Limits = field(default_factory=Limits)
    exposed: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    files: tuple[StartupPath, ...] = ()
    resolver: Mapping[str, Any] = field(default_factory=default_resolver)
    runtime: Mapping[str, Any] = field(default_factory=default_runtime)
    active: bool = True

    def __post_init__(self) -> None:
        _distinct("module", [module.filename for module in self.modules])
        _distinct("startup file", [file.filename for file in self.startup] + [file.path for file in self.files])
        _distinct("capability", [f"{capability.kind} {capability.name}" for capability in self.capabilities])
        _distinct("exposed module", list(self.exposed))
        _distinct("library", list(self.packages))
        _check_resolver(self.resolver)
        _check_words("runtime", self.runtime, default_runtime())
        for name, value in self.runtime.items():
            _check_flag(f"runtime.{name}", value)
        _check_flag("active", self.active)

    def grants(self, kind: str, name: str) -> bool:
        """Whether sessions may use this."""
        return any(c.kind == kind and c.name == name and c.enabled for c in self.capabilities)

    def as_dict(self) -> dict[str, Any]:
        return {
            "language": self.language,
            "libraries": [file._asdict() for file in self.libraries],
            "modules": [file._asdict() for file in self.modules],
            "startup": [file._asdict() for file in self.startup],
            "capabilities": [capability._asdict() | {"config": dict(capability.config)} for capability in self.capabilities],
            "limits": {name: getattr(self.limits, name) for name in Limits.__dataclass_fields__},
            "exposed": list(self.exposed),
            "packages": list(self.packages),
            "files": [file._asdict() for file in self.files],
            "resolver": dict(self.resolver),
            "runtime": dict(self.runtime),
            "active": self.active,
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        return cls(
            language=given["language"],
            libraries=tuple(SourceFile(**file) for file in given["libraries"]),
            modules=tuple(SourceFile(**file) for file in given["modules"]),
            startup=tuple(StartupFile(**file) for file in given["startup"]),
            capabilities=tuple(Capability(**capability) for capability in given["capabilities"]),
            limits=Limits(**given["limits"]),
            exposed=tuple(given["exposed"]),
            packages=tuple(given["packages"]),
            files=tuple(StartupPath(**file) for file in given["files"]),
            resolver=given["resolver"],
            runtime=given["runtime"],
            active=given["active"],
        )


def _distinct(what: str, names: list[str]) -> None:
    if len(set(names)) == len(names):
        return
    for name in names:
        if names.count(name) > 1:
            raise InvalidValue(f"two of one name: {what} {name!r}")


def _check_resolver(resolver: Mapping[str, Any]) -> None:
    _check_words("resolver", resolver, default_resolver())
    for name in ("roots", "extensions"):
        words = resolver[name]
        if not isinstance(words, list) or not 0 < len(words) <= _MOST_ROOTS:
            raise InvalidValue(f"resolver.{name} must be a list of 1 to {_MOST_ROOTS} texts")
        for word in words:
            if not isinstance(word, str) or not 0 < len(word) <= _LONGEST_WORD:
                raise InvalidValue(f"resolver.{name} must be a list of texts of 1 to {_LONGEST_WORD} characters")
    if not all(extension.startswith(".") for extension in resolver["extensions"]):
        raise InvalidValue("resolver.extensions must begin with a dot")
    for root in resolver["roots"]:
        if root.startswith("/") or ".." in root.split("/"):
            raise InvalidValue("resolver.roots must be folders of the worktree, relative to it and without ..")
    _check_flag("resolver.allow_absolute_repo_imports", resolver["allow_absolute_repo_imports"])


def _check_words(what: str, given: Mapping[str, Any], known: dict[str, Any]) -> None:
    if not isinstance(given, Mapping) or given.keys() != known.keys():
        raise InvalidValue(f"{what} must be an object with {', '.join(known)}, and nothing else")


def _check_flag(what: str, value: object) -> None:
    if type(value) is not bool:
        raise InvalidValue(f"{what} must be true or false")
