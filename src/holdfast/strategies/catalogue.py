"""The packages that there are, told to people and programs: plain JSON."""

from collections.abc import Iterator
from typing import Any

from holdfast.domain import HoldfastError
from holdfast.sandbox import Engine
from holdfast.strategies import names
from holdfast.strategies.meta import Meta, MetaReader
from holdfast.strategies.packages import Listed, PackagePath


class Catalogue:
    """What packages there are, and what each says of itself. For any thread; it may take a while."""

    def __init__(self, packages: PackagePath, engine: Engine) -> None:
        self._packages = packages
        self._reader = MetaReader(packages, engine)

    def all(self, language: str | None = None) -> Iterator[dict[str, Any]]:
        """By name: `{name, language, version, description, category, source, hides}`, and an `error` for one that cannot be used."""
        for one in self._packages.list(language):
            yield self._told(one)[0]

    def show(self, name: str, language: str | None = None) -> dict[str, Any]:
        """One of them: the same, with `meta`, `spec`, `sha256`, `files`, and the name and the `text` of its init file."""
        package = self._packages.get(name, language)
        hides = next((one.hides for one in self._packages.list(package.language, name)), ())
        told, meta = self._told(Listed(name, package.language, package.source, package, None, hides))
        return told | {
            "meta": dict(meta.meta),
            "spec": None if meta.spec is None else dict(meta.spec),
            "sha256": package.sha256,
            "files": list(package.files),
            "file": names.INIT[package.language],
            "text": package.text,
        }

    def _told(self, one: Listed) -> tuple[dict[str, Any], Meta]:
        meta, problem = Meta(), one.problem
        if one.package is not None:
            try:
                meta = self._reader.read(one.package)
            except HoldfastError as error:
                problem = error
        told = {
            "name": one.name,
            "language": one.language,
            "version": meta.version,
            "description": meta.description,
            "category": meta.category,
            "source": one.source,
            "hides": list(one.hides),
        }
        return told if problem is None else told | {"error": {"code": problem.code, "message": str(problem)}}, meta
