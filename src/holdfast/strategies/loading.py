"""What sessions of a template find of packages, when their scripts import or require them.

A grant is looked at each time, and by the package's name alone. Who names a module says from where, and may lie about that: a relative name
means a part of the package that it says to be in, and that must be granted like any other.
"""

import posixpath
from collections.abc import Callable
from typing import Final, Literal

from holdfast.domain import HoldfastError, TemplateSpec
from holdfast.sandbox import HostError, Module
from holdfast.strategies import names
from holdfast.strategies.packages import Package, PackagePath

KIND: Final = "packages"
"""The kind of the capabilities that are about packages."""
ALL: Final = "*"
"""The name of the one that is about all of them."""

_MODULE_KINDS: Final[dict[str, Literal["module", "commonjs", "either", "script", "json"]]] = {
    ".lua": "script",
    ".js": "either",
    ".mjs": "module",
    ".cjs": "commonjs",
    ".json": "json",
}


def grants(spec: TemplateSpec, name: str) -> bool:
    """Whether sessions of a template may use a package. A capability that is not enabled denies."""
    about = [one.enabled for one in spec.capabilities if one.kind == KIND and one.name in (ALL, name)]
    return bool(about) and all(about)


class SessionPackages:
    """The packages of sessions of one template."""

    def __init__(self, path: PackagePath, language: str, granted: Callable[[str], bool], *, grants_any: bool) -> None:
        self._path, self._language, self._granted = path, language, granted
        self.grants_any = grants_any
        """Whether any package may be found."""

    @classmethod
    def of(cls, spec: TemplateSpec, path: PackagePath) -> "SessionPackages":
        """Those that a template grants."""
        named = any(one.kind == KIND and one.enabled for one in spec.capabilities)
        return cls(path, spec.language, lambda name: grants(spec, name), grants_any=named)

    def owns(self, referrer: str) -> bool:
        """Whether a full name is that of a file of a package."""
        return names.parse_full(referrer) is not None

    def resolve(self, specifier: str, referrer: str) -> str | None:
        """The full name of what is named by a package's name, or relative to a file of one. None if there is no such thing."""
        within = names.parse_full(referrer)
        place = names.parse(specifier)
        if specifier.startswith("."):
            place = None if within is None else names.beside(specifier, within)
        package = None if place is None else self._found(place.package)
        file = None if package is None or place is None else package.file_of(place.part)
        return None if package is None or file is None else names.full_name(package.name, file)

    def load(self, name: str) -> Module | None:
        """The file of a full name. None if it is not there."""
        place = names.parse_full(name)
        package = None if place is None else self._found(place.package)
        if place is None or package is None or place.part not in package.content.files:
            return None
        kind = _MODULE_KINDS.get(posixpath.splitext(place.part)[1])
        return None if kind is None else Module(kind, package.content.text(place.part))

    def _found(self, name: str) -> Package | None:
        granted = self._granted(name)
        try:
            package = self._path.find(name, self._language)
        except HoldfastError:  # it is there, and cannot be used: that is news for those who may use it
            if granted:
                raise
        else:
            if granted or package is None:
                return package
        message = f"Invalid module: there is no module {name!r}: it is a strategy package, and the template does not grant it"
        raise HostError(message, code="MODULE_NOT_GRANTED")
