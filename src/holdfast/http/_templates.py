"""Templates, their settings and parts, and the catalogue of what templates may have."""

import asyncio
from typing import Annotated, Any, Final

from fastapi import Path, Query

from holdfast.control import plain
from holdfast.domain import HoldfastError, Limits, Template, TemplateNotFound, TemplateSpec, TemplateVersion
from holdfast.http import _examples
from holdfast.http._answers import Json
from holdfast.http._call import ADMIN, READ
from holdfast.http._catalogue import languages, libraries, modules
from holdfast.http._params import CapabilityId, Key, Listed, StartupId, TemplateId
from holdfast.http._routes import Hf, Routes
from holdfast.http.models import _templates as models
from holdfast.store import StoreDamaged

routes: Final = Routes("templates")
catalogue: Final = Routes("catalogue")

_NOT_FOUND: Final = ("TEMPLATE_NOT_FOUND",)
_CHANGE: Final = ("TEMPLATE_NOT_FOUND", "VERSION_CONFLICT", "IDEMPOTENCY_CONFLICT")
_Number = Annotated[int, Path(ge=1, le=(1 << 31) - 1, description="The number of a version.")]
_Part = Annotated[str, Path(min_length=1, max_length=200, description="The name of a module or library.")]


async def _shown(hf: Hf, found: Template) -> dict[str, Any]:
    return plain.template(found, (await hf.templates.version(found.id)).spec)


async def _listed(hf: Hf, found: Template) -> dict[str, Any]:
    try:
        return await _shown(hf, found)
    except StoreDamaged:  # it is named, and the others are shown
        return plain.template(found, TemplateSpec(active=False)) | {"damaged": True}


async def _latest(hf: Hf, template_id: Any) -> TemplateVersion:
    return await hf.templates.version(template_id)


def _changes(given: Any) -> dict[str, Any] | None:
    """What is given of some settings; None if nothing is."""
    return None if given is None else given.model_dump(exclude_none=True) or None


def _limits(given: models.LimitsGiven | None) -> Limits | None:
    return None if given is None else Limits(**given.model_dump(exclude_none=True))


# ---- templates ---------------------------------------------------------------------------------------------------------------------


@routes.add("GET", "/templates", READ, list[models.Template], example=[_examples.TEMPLATE])
async def list_templates(
    hf: Hf, listed: Listed, name: Annotated[str | None, Query(description="Only the one of this name.", max_length=200)] = None
) -> Json:
    """All templates, newest first."""
    if name is not None:
        return Json(await _named(hf, name))
    page = await hf.templates.list(limit=listed.limit, after=listed.cursor)
    shown = await asyncio.gather(*(_listed(hf, found) for found in page.items), return_exceptions=True)
    for one in shown:
        if isinstance(one, BaseException) and not isinstance(one, TemplateNotFound):  # which was deleted meanwhile
            raise one
    return listed.headed([one for one in shown if isinstance(one, dict)], page.next)


async def _named(hf: Hf, name: str) -> list[dict[str, Any]]:
    try:
        found = await hf.templates.get(name)
        return [await _shown(hf, found)] if found.name == name else []
    except HoldfastError as error:
        if isinstance(error, TemplateNotFound):
            return []
        raise


@routes.add(
    "POST",
    "/templates",
    ADMIN,
    models.Template,
    status=201,
    errors=("NAME_TAKEN", "IDEMPOTENCY_CONFLICT", "LIMIT_TOO_HIGH", "LIBRARY_LOAD_FAILED", "TEMPLATE_FAILED"),
    example=_examples.TEMPLATE,
    extra={"body": {"name": "agents", "engine": "javascript", "limits": {"wall_ms": 10_000}}},
)
async def create_template(hf: Hf, body: models.NewTemplate, key: Key) -> Json:
    """Makes a template, with its first version."""
    found = await hf.templates.create(
        body.name, language=body.engine or "javascript", limits=_limits(body.limits), idempotency_key=key
    )
    return Json(await _shown(hf, found), 201)


@routes.add("GET", "/templates/{template_id}", READ, models.TemplateDetail, errors=_NOT_FOUND, example=_examples.DETAIL)
async def get_template(hf: Hf, template_id: TemplateId) -> Json:
    """A template with its settings, capabilities and startup files, and its effective policy: what scripts may reach, and why."""
    found = await hf.templates.get(template_id)
    spec = (await hf.templates.version(template_id, found.latest)).spec
    policy = await hf.templates.policy(template_id, found.latest)
    return Json(
        {
            "template": plain.template(found, spec),
            "settings": plain.settings(found.id, spec),
            "capabilities": [plain.capability(found.id, one) for one in spec.capabilities],
            "startup_files": plain.startup_files(found.id, spec.files),
            "policy": [plain.permission(one) for one in policy],
        }
    )


@routes.add(
    "PATCH",
    "/templates/{template_id}",
    ADMIN,
    models.Template,
    errors=(*_CHANGE, "NAME_TAKEN", "LIMIT_TOO_HIGH", "LIBRARY_LOAD_FAILED", "TEMPLATE_FAILED"),
    example=_examples.TEMPLATE,
    extra={"body": {"is_active": True, "limits": {"wall_ms": 10_000}}},
)
async def update_template(hf: Hf, template_id: TemplateId, body: models.TemplateChange, key: Key) -> Json:
    """Changes a template: its name, or anything else by a new version. Sessions keep the version that they started from."""
    found = await hf.templates.set(
        template_id,
        name=body.name,
        active=body.is_active,
        limits=_changes(body.limits),
        resolver=_changes(body.resolver),
        runtime=_changes(body.runtime),
        idempotency_key=key,
    )
    return Json(await _shown(hf, found))


@routes.add(
    "DELETE",
    "/templates/{template_id}",
    ADMIN,
    models.TemplateDeleted,
    errors=(*_NOT_FOUND, "TEMPLATE_IN_USE", "IDEMPOTENCY_CONFLICT"),
    example={"status": "ok", "template_id": _examples.TEMPLATE_ID},
)
async def delete_template(hf: Hf, template_id: TemplateId, key: Key) -> Json:
    """Removes a template with all its versions. There must be no sessions of it, not even closed ones."""
    await hf.templates.delete(template_id, idempotency_key=key)
    return Json({"status": "ok", "template_id": str(template_id)})


@routes.add(
    "POST",
    "/templates/{template_id}/clone",
    ADMIN,
    models.Template,
    status=201,
    errors=(*_CHANGE, "NAME_TAKEN", "LIMIT_TOO_HIGH", "LIBRARY_LOAD_FAILED", "TEMPLATE_FAILED"),
    example=_examples.TEMPLATE,
    extra={"body": {"name": "agents, next"}},
)
async def clone_template(hf: Hf, template_id: TemplateId, body: models.CloneRequest, key: Key) -> Json:
    """Makes a template that begins as this one is now."""
    return Json(await _shown(hf, await hf.templates.clone(template_id, body.name, idempotency_key=key)), 201)


@routes.add(
    "GET", "/templates/{template_id}/versions", READ, list[models.Version], errors=_NOT_FOUND, example=[_examples.VERSION]
)
async def list_template_versions(hf: Hf, template_id: TemplateId, listed: Listed) -> Json:
    """All versions of a template, newest first."""
    page = await hf.templates.versions(template_id, limit=listed.limit, after=listed.cursor)
    return listed.answer(page, plain.template_version)


@routes.add(
    "GET",
    "/templates/{template_id}/versions/{number}",
    READ,
    models.Version,
    errors=_NOT_FOUND,
    example=_examples.VERSION,
)
async def get_template_version(hf: Hf, template_id: TemplateId, number: _Number) -> Json:
    """One version of a template."""
    return Json(plain.template_version(await hf.templates.version(template_id, number)))


@routes.add("GET", "/templates/{template_id}/settings", READ, models.Settings, errors=_NOT_FOUND, example=_examples.SETTINGS)
async def get_template_settings(hf: Hf, template_id: TemplateId) -> Json:
    """The settings of a template's latest version."""
    return Json(plain.settings(template_id, (await _latest(hf, template_id)).spec))


@routes.add(
    "PATCH",
    "/templates/{template_id}/settings",
    ADMIN,
    models.Settings,
    errors=(*_CHANGE, "LIMIT_TOO_HIGH", "LIBRARY_LOAD_FAILED", "TEMPLATE_FAILED"),
    example=_examples.SETTINGS,
    extra={"body": {"limits": {"max_events": 1000}, "runtime": {"strict": True}}},
)
async def update_template_settings(hf: Hf, template_id: TemplateId, body: models.SettingsChange, key: Key) -> Json:
    """Changes settings of a template, by a new version."""
    await hf.templates.set(
        template_id,
        limits=_changes(body.limits),
        resolver=_changes(body.resolver),
        runtime=_changes(body.runtime),
        idempotency_key=key,
    )
    return Json(plain.settings(template_id, (await _latest(hf, template_id)).spec))


# ---- capabilities ------------------------------------------------------------------------------------------------------------------


@routes.add(
    "GET",
    "/templates/{template_id}/capabilities",
    READ,
    list[models.Capability],
    errors=_NOT_FOUND,
    example=[_examples.CAPABILITY],
)
async def list_capabilities(hf: Hf, template_id: TemplateId, listed: Listed) -> Json:
    """What sessions of a template may reach."""
    spec = (await _latest(hf, template_id)).spec
    return listed.part([plain.capability(template_id, one) for one in spec.capabilities])


@routes.add(
    "POST",
    "/templates/{template_id}/capabilities",
    ADMIN,
    models.Capability,
    status=201,
    errors=(*_CHANGE, "CAPABILITY_EXISTS", "CAPABILITY_INVALID"),
    example=_examples.CAPABILITY,
    extra={"body": {"kind": "module", "name": "fs", "enabled": True, "config": {"write": True}}},
)
async def add_capability(hf: Hf, template_id: TemplateId, body: models.NewCapability, key: Key) -> Json:
    """Grants something to sessions of a template if it is enabled, and denies it if not: a module, a package,
    or a function or tool of the daemon.
    """
    made = await hf.templates.add_capability(
        template_id, body.kind, body.name, enabled=body.enabled or False, config=body.config, idempotency_key=key
    )
    return Json(plain.capability(template_id, made), 201)


@routes.add(
    "DELETE",
    "/templates/{template_id}/capabilities/{capability_id}",
    ADMIN,
    models.PartIdRemoved,
    errors=(*_CHANGE, "CAPABILITY_NOT_FOUND"),
    example={"status": "ok", "template_id": _examples.TEMPLATE_ID, "id": _examples.OTHER_ID},
)
async def remove_capability(hf: Hf, template_id: TemplateId, capability_id: CapabilityId, key: Key) -> Json:
    """Takes a capability back from later sessions."""
    await hf.templates.remove_capability(template_id, str(capability_id), idempotency_key=key)
    return Json({"status": "ok", "template_id": str(template_id), "id": str(capability_id)})


# ---- modules and libraries ---------------------------------------------------------------------------------------------------------


@routes.add("GET", "/templates/{template_id}/modules", READ, list[str], errors=_NOT_FOUND, example=["fs"])
async def list_modules(hf: Hf, template_id: TemplateId, listed: Listed) -> Json:
    """The native modules that scripts may require."""
    return listed.part(list((await _latest(hf, template_id)).spec.exposed))


@routes.add(
    "POST",
    "/templates/{template_id}/modules",
    ADMIN,
    models.PartNamed,
    status=201,
    errors=(*_CHANGE, "MODULE_NOT_ALLOWED"),
    example={"template_id": _examples.TEMPLATE_ID, "name": "fs"},
    extra={"body": {"name": "fs"}},
)
async def add_module(hf: Hf, template_id: TemplateId, body: models.NamedPart, key: Key) -> Json:
    """Exposes a native module. One that is exposed already stays so."""
    await hf.templates.add_module(template_id, body.name, idempotency_key=key)
    return Json({"template_id": str(template_id), "name": body.name}, 201)


@routes.add(
    "DELETE",
    "/templates/{template_id}/modules/{module_name}",
    ADMIN,
    models.PartRemoved,
    errors=_CHANGE,
    example={"status": "ok", "template_id": _examples.TEMPLATE_ID, "name": "fs"},
)
async def remove_module(hf: Hf, template_id: TemplateId, module_name: _Part, key: Key) -> Json:
    """Hides a native module. One that is not exposed is none."""
    await hf.templates.remove_module(template_id, module_name, idempotency_key=key)
    return Json({"status": "ok", "template_id": str(template_id), "name": module_name})


@routes.add("GET", "/templates/{template_id}/libraries", READ, list[str], errors=_NOT_FOUND, example=["lodash-4.17.21"])
async def list_template_libraries(hf: Hf, template_id: TemplateId, listed: Listed) -> Json:
    """The libraries that sessions begin with."""
    return listed.part(list((await _latest(hf, template_id)).spec.packages))


@routes.add(
    "POST",
    "/templates/{template_id}/libraries",
    ADMIN,
    models.PartNamed,
    status=201,
    errors=(*_CHANGE, "LIBRARY_UNKNOWN", "LIBRARY_NOT_CACHED", "LIBRARY_LOAD_FAILED", "TEMPLATE_FAILED"),
    example={"template_id": _examples.TEMPLATE_ID, "name": "lodash-4.17.21"},
    extra={"body": {"name": "lodash-4.17.21"}},
)
async def add_library(hf: Hf, template_id: TemplateId, body: models.NamedPart, key: Key) -> Json:
    """Adds a library: `lodash`, `lodash@4` or `lodash-4.17.21`. The answer names the exact version, which a session needs in the cache."""
    name = await hf.templates.add_library(template_id, body.name, idempotency_key=key)
    return Json({"template_id": str(template_id), "name": name}, 201)


@routes.add(
    "DELETE",
    "/templates/{template_id}/libraries/{library_name}",
    ADMIN,
    models.PartRemoved,
    errors=_CHANGE,
    example={"status": "ok", "template_id": _examples.TEMPLATE_ID, "name": "lodash-4.17.21"},
)
async def remove_library(hf: Hf, template_id: TemplateId, library_name: _Part, key: Key) -> Json:
    """Removes a library. One that is not there stays away."""
    await hf.templates.remove_library(template_id, library_name, idempotency_key=key)
    return Json({"status": "ok", "template_id": str(template_id), "name": library_name})


# ---- startup files -----------------------------------------------------------------------------------------------------------------


@routes.add(
    "GET",
    "/templates/{template_id}/startup-files",
    READ,
    list[models.StartupFile],
    errors=_NOT_FOUND,
    example=[_examples.STARTUP_FILE],
)
async def list_startup_files(hf: Hf, template_id: TemplateId, listed: Listed) -> Json:
    """The files that each session runs as it starts, in their order."""
    return listed.part(plain.startup_files(template_id, (await _latest(hf, template_id)).spec.files))


@routes.add(
    "POST",
    "/templates/{template_id}/startup-files",
    ADMIN,
    models.StartupFile,
    status=201,
    errors=(*_CHANGE, "STARTUP_FILE_EXISTS", "INVALID_PATH", "STARTUP_MODE_UNSUPPORTED"),
    example=_examples.STARTUP_FILE,
    extra={"body": {"path": "runtime/startup.js", "order_index": 10, "mode": "eval"}},
)
async def add_startup_file(hf: Hf, template_id: TemplateId, body: models.NewStartupFile, key: Key) -> Json:
    """Adds a file of the worktree. It need not be there yet."""
    made = await hf.templates.add_startup(
        template_id, body.path, order_index=body.order_index or 0, mode=body.mode or "eval", idempotency_key=key
    )
    return Json(plain.startup_file(template_id, made), 201)


@routes.add(
    "DELETE",
    "/templates/{template_id}/startup-files/{startup_id}",
    ADMIN,
    models.PartIdRemoved,
    errors=(*_CHANGE, "STARTUP_NOT_FOUND"),
    example={"status": "ok", "template_id": _examples.TEMPLATE_ID, "id": _examples.OTHER_ID},
)
async def remove_startup_file(hf: Hf, template_id: TemplateId, startup_id: StartupId, key: Key) -> Json:
    """Removes a startup file."""
    await hf.templates.remove_startup(template_id, str(startup_id), idempotency_key=key)
    return Json({"status": "ok", "template_id": str(template_id), "id": str(startup_id)})


# ---- the catalogue -----------------------------------------------------------------------------------------------------------------


@catalogue.add("GET", "/catalogue/languages", READ, list[models.Language], example=languages())
async def list_languages(listed: Listed) -> Json:
    """The languages that templates may have."""
    return listed.part(languages())


@catalogue.add("GET", "/catalogue/modules", READ, list[models.Module], example=modules()[:1])
async def list_native_modules(listed: Listed) -> Json:
    """The native modules that templates may expose."""
    return listed.part(modules())


@catalogue.add("GET", "/catalogue/libraries", READ, list[models.Library], example=libraries()[:1])
async def list_libraries(listed: Listed) -> Json:
    """The libraries that templates may load."""
    return listed.part(libraries())
