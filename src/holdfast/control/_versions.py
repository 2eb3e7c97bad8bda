"""How versions of templates come to be. All of it waits for the store, and is called on threads.

A version never changes; each edit adds one, by compare-and-set of its number. An edit is a function from what a template is made from to
what it shall be made from. So it can be done again on what somebody else has left in between, and nothing is lost.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID, uuid5

from holdfast.capabilities import host_grants
from holdfast.control._once import Once
from holdfast.control._policy import host_refusal
from holdfast.control._tenancy import TenantRuntime, require_one
from holdfast.domain import (
    DEFAULT_TENANT,
    HoldfastError,
    InvalidValue,
    LibraryNotCached,
    LimitTooHigh,
    NameTaken,
    SourceFile,
    Template,
    TemplateInactive,
    TemplateNotFound,
    TemplateSpec,
    TemplateVersion,
    VersionConflict,
    new_id,
)
from holdfast.libraries import LibraryCache
from holdfast.store import Reply

Change = Callable[[TemplateSpec], TemplateSpec]

_LARGEST_SOURCE: Final = 16 << 20
_TRIES: Final = 5
"""How often something is done again that others have undone in between, for no fault of the caller."""
_MOST_EDITS: Final = 1000
"""How often an edit is done again because another one came first: each time, one of them has succeeded."""


class Versions:
    """Makes, edits and picks versions of templates."""

    def __init__(self, runtime: TenantRuntime, once: Once, libraries: LibraryCache | None) -> None:
        self._runtime, self._once = runtime, once
        self._libraries = LibraryCache(os.devnull) if libraries is None else libraries

    # ---- a new template ------------------------------------------------------------------------------------------------------------

    def create(self, name: str, spec: TemplateSpec, reply: Reply | None) -> Template:
        runtime = self._runtime
        now = int(runtime.settings.clock())
        template = Template(new_id(), name, 1, now, now, require_one(runtime.tenant))
        if reply is not None:
            template.id = UUID(self._once.plan(reply, {"template_id": str(template.id)})["template_id"])
        self._check_limits(spec, None)
        template = self._made(template, named(spec, template.id))
        if reply is not None:
            runtime.store.put_reply(reply._replace(outcome={"template_id": str(template.id)}))
        return template

    def _made(self, template: Template, spec: TemplateSpec) -> Template:
        store = self._runtime.store
        for left in reversed(range(_TRIES)):
            try:
                self._check_free(template.name)  # before anything is baked that nobody would need
                self._baked(
                    template.id,
                    1,
                    spec,
                    template.created_at,
                    lambda version: store.create_template(template, version),
                    lambda: False,  # nobody else knows of this template
                )
                break
            except NameTaken:
                try:
                    found = store.get_template(template.name)
                except TemplateNotFound:  # it was deleted meanwhile: the name is free
                    if left:
                        continue
                    raise NameTaken from None
                if found.id != template.id:
                    raise
                return found  # another process was asked the same, or one that died before it could reply
        return template

    def _check_free(self, name: str) -> None:
        try:
            self._runtime.store.get_template(name)
        except TemplateNotFound:
            return
        raise NameTaken

    # ---- a new version -------------------------------------------------------------------------------------------------------------

    def edit(self, template: UUID | str, change: Change, reply: Reply | None, *, patient: bool = True) -> TemplateVersion:
        """The version that a change leads to: the latest one, if there is nothing to change.

        Whoever is not patient gets a version in any case, and a `VersionConflict` if somebody else added one in between.
        """
        if reply is not None:
            return self._edit_once(template, change, reply, patient=patient)
        store = self._runtime.store
        for left in reversed(range(_MOST_EDITS)):
            found = store.get_template(template)
            try:
                return self._edited(found.id, found.latest + 1, change, patient=patient)
            except VersionConflict:
                if not patient or not left or not self._is_taken(found.id, found.latest + 1):
                    raise
        raise VersionConflict

    def _edit_once(self, template: UUID | str, change: Change, reply: Reply, *, patient: bool) -> TemplateVersion:
        store = self._runtime.store
        step = reply
        while True:
            found = store.get_template(template)
            plan = self._once.plan(step, {"template_id": str(found.id), "number": found.latest + 1})
            if plan["template_id"] == str(found.id):
                number = plan["number"]
                version = self._same(found.id, number, change, patient=patient)
                if version is None and number > found.latest:
                    try:
                        version = self._edited(found.id, number, change, patient=patient)
                    except VersionConflict:
                        version = self._same(found.id, number, change, patient=patient)
                        if version is None and not (patient and self._is_taken(found.id, number)):
                            raise
                if version is not None:  # perhaps by another process, or by one that died before it could reply
                    store.put_reply(reply._replace(outcome={"template_id": str(found.id), "number": version.number}))
                    return version
            # What was planned did not happen, nor can it now: the number is somebody else's, or the name is another template's.
            step = reply._replace(request=f"{reply.request} {plan['template_id']} {plan['number']}")

    def _edited(self, template_id: UUID, number: int, change: Change, *, patient: bool) -> TemplateVersion:
        before = self._runtime.store.get_version(template_id, number - 1)
        spec = _changed(before, change)
        if patient and _text(spec) == _text(before.spec):
            return before
        self._check_limits(spec, before.spec)
        return self._add(template_id, number, spec, before)

    def _check_limits(self, spec: TemplateSpec, before: TemplateSpec | None) -> None:
        """Raise `LimitTooHigh` for a limit above the ceiling of this process. One that a version had before the ceiling may stay, and 0,
        no limit, is then as much as the ceiling allows.
        """
        ceiling = self._runtime.settings.limits_ceiling
        for name in spec.limits.above(ceiling):
            value = getattr(spec.limits, name)
            if value and (before is None or value != getattr(before.limits, name)):
                message = f"{name} is {value}; limits_ceiling of the daemon allows at most {ceiling[name]}"
                raise LimitTooHigh(message).with_details(field=f"limits.{name}")

    def _same(self, template_id: UUID, number: int, change: Change, *, patient: bool) -> TemplateVersion | None:
        """The version that came of this change, if it was made: the one of this number, or the one before it if that needed none."""
        try:
            before = self._runtime.store.get_version(template_id, number - 1)
            version = self._runtime.store.get_version(template_id, number)
            spec = _changed(before, change)
        except HoldfastError:
            return None
        if patient and _text(spec) == _text(before.spec):
            return before
        return version if _text(version.spec) == _text(spec) else None

    def _add(
        self, template_id: UUID, number: int, spec: TemplateSpec, before: TemplateVersion | None = None
    ) -> TemplateVersion:
        store = self._runtime.store
        now = int(self._runtime.settings.clock())
        return self._baked(
            template_id,
            number,
            spec,
            now,
            lambda version: store.add_version(version, now),
            lambda: self._is_taken(template_id, number),
            before,
        )

    def _is_taken(self, template_id: UUID, number: int) -> bool:
        """Whether somebody else has added a version of this number."""
        return self._runtime.store.get_template(template_id).latest >= number

    def _baked(
        self,
        template_id: UUID,
        number: int,
        spec: TemplateSpec,
        now: int,
        keep: Callable[[TemplateVersion], None],
        is_taken: Callable[[], bool],
        before: TemplateVersion | None = None,
    ) -> TemplateVersion:
        """A version, baked and kept; baked again, if what came of it was dropped with another template in between.

        A store says the same of that and of a number that is taken. Whether the memory is there now tells nothing: somebody may have put
        it back. One of whose libraries is not in the cache is kept as it is, to be baked when a session needs it.
        """
        for left in reversed(range(_TRIES)):
            guest, baked, startup = self._bake(spec, before)
            version = TemplateVersion(template_id, number, _with_baked(spec, startup), guest, baked, now)
            try:
                keep(version)
                break
            except VersionConflict:
                if not left or is_taken():
                    raise
        return version

    def _bake(self, spec: TemplateSpec, before: TemplateVersion | None) -> tuple[bytes, bytes, frozenset[str]]:
        shelf = self._runtime.core.shelf
        if before is not None and _recipe(before.spec) == _recipe(spec) and shelf.is_current(before):
            return before.guest, before.baked, frozenset(file.filename for file in before.spec.startup if file.in_template)
        try:
            packages = self._packages(spec)
        except LibraryNotCached:
            return b"", b"", frozenset()
        return shelf.bake(spec, packages)

    def _packages(self, spec: TemplateSpec) -> list[SourceFile]:
        """The libraries that a template names, in their order, each once."""
        return self._libraries.load(spec.packages, spec.language)

    def library(self, name: str, language: str) -> str:
        """The full name of a library, which is that of one version. Raises `LibraryUnknown` and `LibraryNotCached`."""
        return self._libraries.resolve(name, language)

    # ---- for a session -------------------------------------------------------------------------------------------------------------

    def pick(self, template: UUID | str, number: int | None) -> TemplateVersion:
        """The version that a session is made of, by default the latest. `TemplateInactive`, whatever the version.

        `CapabilityInvalid` if a template of a tenant has come by a grant that reaches the host, and that no operator has made.
        """
        found = self._runtime.store.get_template(template)
        shelf = self._runtime.core.shelf
        latest = shelf.get(found.id, found.latest).version
        if not latest.spec.active:
            raise TemplateInactive().with_details(template_id=str(found.id))
        version = latest if number is None or number == found.latest else shelf.get(found.id, number).version
        if found.tenant != DEFAULT_TENANT:
            for _, field in host_grants(version.spec):
                raise host_refusal(field).with_details(template_id=str(found.id))
        return version

    def bake(self, version: TemplateVersion) -> TemplateVersion | None:
        """The twin of a version that is not baked, which is. None if the template was changed in between.

        `LibraryNotCached` if the cache still lacks a library, or the version is an old one.
        """
        self._packages(version.spec)
        store = self._runtime.store
        latest = store.get_template(version.template_id).latest
        for number in range(version.number + 1, latest + 1):
            twin = store.get_version(version.template_id, number)
            if twin.baked and _text(twin.spec) == _text(version.spec):
                return twin
        if latest > version.number:
            raise LibraryNotCached("failed to load libraries: they were not in the cache when this version was made")
        try:
            made = self._add(version.template_id, version.number + 1, version.spec)
        except VersionConflict:
            if not self._is_taken(version.template_id, version.number + 1):
                raise
            return None
        return made if made.baked else None


def named(spec: TemplateSpec, template_id: UUID) -> TemplateSpec:
    """With ids for all parts that have one. They follow from the template and the part, so that a part keeps its own."""

    def derived(*words: str) -> str:
        return str(uuid5(template_id, "\0".join(words).encode("utf-8", "backslashreplace").decode()))

    return replace(
        spec,
        capabilities=tuple(c._replace(id=derived("capability", c.kind, c.name)) for c in spec.capabilities),
        files=tuple(file._replace(id=derived("startup", file.path)) for file in spec.files),
    )


def check_sources(spec: TemplateSpec) -> None:
    """`InvalidValue` if there is too much of it."""
    texts = [file.text for file in (*spec.libraries, *spec.modules)] + [file.text for file in spec.startup]
    size = sum(map(len, texts))
    if size > _LARGEST_SOURCE:
        raise InvalidValue(f"the files of a template have {size} characters; at most {_LARGEST_SOURCE} are taken")


def _changed(before: TemplateVersion, change: Change) -> TemplateSpec:
    spec = named(change(before.spec), before.template_id)
    check_sources(spec)
    return spec


def _recipe(spec: TemplateSpec) -> tuple[Any, ...]:
    """What the baked memory depends on."""
    startup = [file._replace(baked=False) for file in spec.startup]
    reached = (spec.modules, spec.resolver) if any(file.when != "session" for file in startup) else ()
    return spec.language, spec.packages, spec.libraries, startup, reached, spec.limits


def _text(spec: TemplateSpec) -> str:
    """As it is stored, where a tuple is a list, but for what is noted when it is baked."""
    return json.dumps(_with_baked(spec, frozenset()).as_dict(), sort_keys=True)


def _with_baked(spec: TemplateSpec, startup: frozenset[str]) -> TemplateSpec:
    """With a note which startup files that leave it open are part of the template."""
    if not spec.startup:
        return spec
    files = tuple(file._replace(baked=file.when == "auto" and file.filename in startup) for file in spec.startup)
    return replace(spec, startup=files)
