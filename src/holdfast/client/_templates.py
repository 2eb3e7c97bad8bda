"""Calls about templates."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from holdfast.client import models
from holdfast.client._calls import Call, Page, an_id, change, given, look, nothing, one, page_of, path
from holdfast.client._verbs import Group, Way, each, verb
from holdfast.domain import Limits


def _at(template: UUID | str, *rest: str) -> str:
    return path("templates", an_id(template, "template"), *rest)


class Templates(Group[Way]):
    """`client.templates`: what sessions are made from. A change makes a new version; sessions keep theirs."""

    @verb
    def list(
        self, *, name: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.Template]]:
        """Templates, newest first; with `name` the one of that name."""
        return look(path("templates"), page_of(models.Template), name=name, limit=limit, cursor=cursor)

    @each
    def iterate(self, *, name: str | None = None, page_size: int = 200) -> Call[Page[models.Template]]:
        """All templates, newest first, fetched as they are needed."""
        return look(path("templates"), page_of(models.Template), name=name, limit=page_size)

    @verb
    def create(
        self,
        name: str,
        *,
        engine: str | None = None,
        limits: Limits | Mapping[str, int] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Template]:
        """A new template, by default for JavaScript. Limits that are not given are the daemon's. Raises `NameTaken`."""
        body = given(name=name, engine=engine, limits=limits)
        return change("POST", path("templates"), one(models.Template), body, idempotency_key)

    @verb
    def get(self, template: UUID | str) -> Call[models.TemplateDetail]:
        """A template with its settings, capabilities and startup files, and `policy`: what its sessions may reach, and why."""
        return look(_at(template), one(models.TemplateDetail))

    @verb
    def update(
        self,
        template: UUID | str,
        *,
        name: str | None = None,
        is_active: bool | None = None,
        limits: Mapping[str, int] | None = None,
        resolver: Mapping[str, Any] | None = None,
        runtime: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Template]:
        """Changes what is given, and leaves the rest."""
        body = given(name=name, is_active=is_active, limits=limits, resolver=resolver, runtime=runtime)
        return change("PATCH", _at(template), one(models.Template), body, idempotency_key)

    @verb
    def delete(self, template: UUID | str, *, idempotency_key: str | None = None) -> Call[None]:
        """Removes a template. Raises `TemplateInUse` while sessions of it exist."""
        return change("DELETE", _at(template), nothing, None, idempotency_key)

    @verb
    def clone(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> Call[models.Template]:
        """A new template that begins as this one is."""
        return change("POST", _at(template, "clone"), one(models.Template), {"name": name}, idempotency_key)

    # ---- versions and settings -----------------------------------------------------------------------------------------------------

    @verb
    def versions(
        self, template: UUID | str, *, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.TemplateVersion]]:
        """The versions of a template."""
        return look(_at(template, "versions"), page_of(models.TemplateVersion), limit=limit, cursor=cursor)

    @verb
    def version(self, template: UUID | str, number: int) -> Call[models.TemplateVersion]:
        """One version of a template."""
        return look(_at(template, "versions", str(number)), one(models.TemplateVersion))

    @verb
    def settings(self, template: UUID | str) -> Call[models.Settings]:
        """How a template's sessions run."""
        return look(_at(template, "settings"), one(models.Settings))

    @verb
    def update_settings(
        self,
        template: UUID | str,
        *,
        limits: Mapping[str, int] | None = None,
        resolver: Mapping[str, Any] | None = None,
        runtime: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Settings]:
        """Changes what is given, and leaves the rest."""
        body = given(limits=limits, resolver=resolver, runtime=runtime)
        return change("PATCH", _at(template, "settings"), one(models.Settings), body, idempotency_key)

    # ---- capabilities --------------------------------------------------------------------------------------------------------------

    @verb
    def capabilities(
        self, template: UUID | str, *, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.Capability]]:
        """What sessions of a template may reach."""
        return look(_at(template, "capabilities"), page_of(models.Capability), limit=limit, cursor=cursor)

    @verb
    def add_capability(
        self,
        template: UUID | str,
        kind: str,
        name: str,
        *,
        enabled: bool = False,
        config: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Call[models.Capability]:
        """Adds a capability, which denies what it names unless it is enabled.

        Raises `CapabilityInvalid`: `error.details["field"]` is the path of what is wrong, as in `config.programs[0]`.
        """
        body = given(kind=kind, name=name, enabled=enabled, config=config)
        return change("POST", _at(template, "capabilities"), one(models.Capability), body, idempotency_key)

    @verb
    def remove_capability(
        self, template: UUID | str, capability: UUID | str, *, idempotency_key: str | None = None
    ) -> Call[None]:
        """Removes a capability by its id."""
        where = _at(template, "capabilities", an_id(capability, "capability"))
        return change("DELETE", where, nothing, None, idempotency_key)

    # ---- modules and libraries -----------------------------------------------------------------------------------------------------

    @verb
    def modules(self, template: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[str]]:
        """The native modules that a template exposes."""
        return look(_at(template, "modules"), page_of(str), limit=limit, cursor=cursor)

    @verb
    def add_module(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> Call[models.Named]:
        """Exposes a native module. Twice is fine."""
        return change("POST", _at(template, "modules"), one(models.Named), {"name": name}, idempotency_key)

    @verb
    def remove_module(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> Call[None]:
        """Exposes a native module no longer. Twice is fine."""
        return change("DELETE", _at(template, "modules", name), nothing, None, idempotency_key)

    @verb
    def libraries(self, template: UUID | str, *, limit: int | None = None, cursor: str | None = None) -> Call[Page[str]]:
        """The libraries that a template loads."""
        return look(_at(template, "libraries"), page_of(str), limit=limit, cursor=cursor)

    @verb
    def add_library(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> Call[models.Named]:
        """Loads a library of the daemon's cache in each session. Twice is fine."""
        return change("POST", _at(template, "libraries"), one(models.Named), {"name": name}, idempotency_key)

    @verb
    def remove_library(self, template: UUID | str, name: str, *, idempotency_key: str | None = None) -> Call[None]:
        """Loads a library no longer. Twice is fine."""
        return change("DELETE", _at(template, "libraries", name.replace("/", "+")), nothing, None, idempotency_key)

    # ---- startup files -------------------------------------------------------------------------------------------------------------

    @verb
    def startup_files(
        self, template: UUID | str, *, limit: int | None = None, cursor: str | None = None
    ) -> Call[Page[models.StartupFile]]:
        """The files that run as a session starts, in order."""
        return look(_at(template, "startup-files"), page_of(models.StartupFile), limit=limit, cursor=cursor)

    @verb
    def add_startup_file(
        self,
        template: UUID | str,
        file: str,
        *,
        order_index: int = 0,
        mode: str = "eval",
        idempotency_key: str | None = None,
    ) -> Call[models.StartupFile]:
        """Adds a file of the worktree, by its path there."""
        body = given(path=file, order_index=order_index, mode=mode)
        return change("POST", _at(template, "startup-files"), one(models.StartupFile), body, idempotency_key)

    @verb
    def remove_startup_file(
        self, template: UUID | str, startup: UUID | str, *, idempotency_key: str | None = None
    ) -> Call[None]:
        """Removes a startup file by its id."""
        where = _at(template, "startup-files", an_id(startup, "startup file"))
        return change("DELETE", where, nothing, None, idempotency_key)
