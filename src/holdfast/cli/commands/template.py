"""`holdfast template`: what sessions are made from."""

import sys
from typing import Annotated, Any

import typer

from holdfast.cli._exits import usage
from holdfast.cli._explaining import explained
from holdfast.cli._given import limits_of
from holdfast.cli._remote import plain, template_id
from holdfast.cli._tables import listing, pairs, shown
from holdfast.cli._terminal import harmless, print_json
from holdfast.cli.commands import Json, Limited, Limits, TemplateArgument, command, group, json_object, said

app = group("Templates: what sessions start from and may reach.")

Name = Annotated[str, typer.Option("--name", help="Its name.")]


@command(app, "create", "holdfast template create --name first", "holdfast template create --name quick --limit wall_ms=200")
def create(
    context: typer.Context,
    name: Name,
    engine: Annotated[str, typer.Option("--engine", help="javascript or lua.")] = "javascript",
    limit: Limits = None,
    json: Json = False,
) -> None:
    """Makes a template."""
    limits = limits_of(limit or [])
    with said(context).client() as client:
        made = client.templates.create(name, engine=engine, limits=limits or None)
    _made(plain(made), json)


def _made(template: dict[str, Any], json: bool) -> None:
    if json:
        print_json(template)
    else:
        print(f"Created template: {template['name']} (ID: {template['id']})")


@command(app, "list", "holdfast template list", "holdfast template list --json")
def list_templates(
    context: typer.Context,
    name: Annotated[str | None, typer.Option("--name", help="Only the one of this name.")] = None,
    limit: Limited = 50,
    json: Json = False,
) -> None:
    """Shows templates, newest first."""
    with said(context).client() as client:
        found = plain(list(client.templates.list(name=name, limit=limit)))
    columns = {"ID": "id", "Name": "name", "Engine": "engine", "Active": "is_active", "Version": "version"}
    listing(json, found, columns, "No templates found")


@command(app, "get", "holdfast template get first")
def get(context: typer.Context, template: TemplateArgument, json: Json = False) -> None:
    """Shows a template with all that belongs to it."""
    with said(context).client() as client:
        found = plain(client.templates.get(template_id(client, template)))
    if json:
        print_json(found)
        return
    one, settings = found["template"], found["settings"]
    pairs(
        {
            "ID": one["id"],
            "Name": one["name"],
            "Engine": one["engine"],
            "Active": one["is_active"],
            "Version": one["version"],
            "Created": one["created_at"],
            "Updated": one["updated_at"],
        }
    )
    print("Settings:")
    pairs({"  Limits": settings["limits"], "  Resolver": settings["resolver"], "  Runtime": settings["runtime"]})
    _section("Capabilities", [f"{c['kind']} {c['name']} enabled={shown(c['enabled'])}" for c in found["capabilities"]])
    _section("Startup Files", [f"[{f['order_index']}] {f['mode']} {f['path']}" for f in found["startup_files"]])
    _section("Exposed Modules", one["exposed_modules"])
    _section("Loaded Libraries", one["libraries"])


@command(app, "show", "holdfast template show first", "holdfast template show first --json")
def show(context: typer.Context, template: TemplateArgument, json: Json = False) -> None:
    """Shows what sessions of a template may reach, and why: its effective policy."""
    with said(context).client() as client:
        found = plain(client.templates.get(template_id(client, template)))
    if json:
        print_json(found)
        return
    one = found["template"]
    pairs(
        {"ID": one["id"], "Name": one["name"], "Engine": one["engine"], "Version": one["version"], "Active": one["is_active"]}
    )
    columns = {"Kind": "kind", "Name": "name", "Granted": "granted", "Reason": "reason", "Config": "config"}
    listing(json, found["policy"], columns, "No policy found")


@command(app, "explain", "holdfast template explain first")
def explain(context: typer.Context, template: TemplateArgument, json: Json = False) -> None:
    """Tells what a script of a template can and cannot do."""
    with said(context).client() as client:
        found = plain(client.templates.get(template_id(client, template)))
    lines = list(explained(found))
    if json:
        print_json(lines)
        return
    for line in lines:
        print(harmless(line, sys.stdout))


def _section(title: str, lines: list[str]) -> None:
    if lines:
        print(f"{title}:")
        for line in lines:
            print(f"  {line}")


@command(app, "update", "holdfast template update first --limit cpu_ms=500", "holdfast template update first --inactive")
def update(
    context: typer.Context,
    template: TemplateArgument,
    name: Annotated[str | None, typer.Option("--name", help="A new name.")] = None,
    active: Annotated[bool | None, typer.Option("--active/--inactive", help="Whether new sessions may be made of it.")] = None,
    limit: Limits = None,
    resolver: Annotated[str | None, typer.Option("--resolver", help="How imports are found, as a JSON object.")] = None,
    runtime: Annotated[str | None, typer.Option("--runtime", help="How scripts are run, as a JSON object.")] = None,
    json: Json = False,
) -> None:
    """Changes a template. Sessions keep the version that they began with."""
    changes: dict[str, Any] = {
        "name": name,
        "is_active": active,
        "limits": limits_of(limit or []) or None,
        "resolver": None if resolver is None else json_object(resolver, "--resolver"),
        "runtime": None if runtime is None else json_object(runtime, "--runtime"),
    }
    if all(value is None for value in changes.values()):
        raise usage("say what to change", "`holdfast template update --help` shows what can be changed")
    with said(context).client() as client:
        changed = plain(client.templates.update(template_id(client, template), **changes))
    if json:
        print_json(changed)
    else:
        print(f"Updated template: {changed['name']} (version {changed['version']})")


@command(app, "clone", "holdfast template clone first --name second")
def clone(context: typer.Context, template: TemplateArgument, name: Name, json: Json = False) -> None:
    """Makes a template that begins as another one is."""
    with said(context).client() as client:
        made = plain(client.templates.clone(template_id(client, template), name))
    _made(made, json)


@command(app, "versions", "holdfast template versions first")
def versions(context: typer.Context, template: TemplateArgument, limit: Limited = 50, json: Json = False) -> None:
    """Shows the versions of a template, which never change."""
    with said(context).client() as client:
        found = plain(list(client.templates.versions(template_id(client, template), limit=limit)))
    listing(json, found, {"Version": "number", "Created": "created_at"}, "No versions found")


@command(app, "delete", "holdfast template delete first")
def delete(context: typer.Context, template: TemplateArgument, json: Json = False) -> None:
    """Removes a template that no session is of."""
    with said(context).client() as client:
        found_id = template_id(client, template)
        client.templates.delete(found_id)
    _confirmed(json, {"status": "ok", "template_id": found_id}, f"Deleted template: {found_id}")


def _confirmed(json: bool, document: dict[str, Any], line: str) -> None:
    if json:
        print_json(document)
    else:
        print(line)


# ---- startup files -----------------------------------------------------------------------------------------------------------------


@command(app, "add-startup", "holdfast template add-startup first --path init.js --order 10")
def add_startup(
    context: typer.Context,
    template: TemplateArgument,
    path: Annotated[str, typer.Option("--path", help="A file of the worktree, by its path there.")],
    mode: Annotated[str, typer.Option("--mode", help="How it runs: eval.")] = "eval",
    order: Annotated[int, typer.Option("--order", help="Files run in this order.")] = 10,
    json: Json = False,
) -> None:
    """Adds a file that runs as a session starts."""
    if mode != "eval":
        raise usage(f"there is no startup mode {mode[:40]!r}", "the mode is eval")
    with said(context).client() as client:
        added = plain(client.templates.add_startup_file(template_id(client, template), path, order_index=order, mode=mode))
    _confirmed(json, added, f"Added startup file: {added['path']} (ID: {added['id']})")


@command(app, "list-startup", "holdfast template list-startup first")
def list_startup(context: typer.Context, template: TemplateArgument, limit: Limited = 50, json: Json = False) -> None:
    """Shows the startup files of a template, in order."""
    with said(context).client() as client:
        found = plain(list(client.templates.startup_files(template_id(client, template), limit=limit)))
    columns = {"Order": "order_index", "Mode": "mode", "Path": "path", "ID": "id"}
    listing(json, found, columns, "No startup files found")


@command(app, "remove-startup", "holdfast template remove-startup first 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def remove_startup(
    context: typer.Context,
    template: TemplateArgument,
    startup: Annotated[str, typer.Argument(metavar="STARTUP_ID", help="The startup file's id.")],
    json: Json = False,
) -> None:
    """Removes a startup file."""
    with said(context).client() as client:
        found_id = template_id(client, template)
        client.templates.remove_startup_file(found_id, startup)
    _confirmed(json, {"status": "ok", "template_id": found_id, "id": startup}, f"Removed startup file: {startup}")


# ---- capabilities ------------------------------------------------------------------------------------------------------------------


@command(app, "add-capability", "holdfast template add-capability first --name fs --config '{\"write\": true}'")
def add_capability(
    context: typer.Context,
    template: TemplateArgument,
    name: Name,
    kind: Annotated[str, typer.Option("--kind", help="module, function, tool or packages.")] = "module",
    config: Annotated[str, typer.Option("--config", help="Its configuration, as a JSON object.")] = "{}",
    enabled: Annotated[
        bool, typer.Option("--enabled/--disabled", help="Whether it grants what it names, or denies it.")
    ] = True,
    json: Json = False,
) -> None:
    """Lets sessions of a template reach something."""
    settings = json_object(config, "--config")
    with said(context).client() as client:
        found_id = template_id(client, template)
        added = plain(client.templates.add_capability(found_id, kind, name, enabled=enabled, config=settings))
    _confirmed(json, added, f"Added capability: {added['kind']} {added['name']} (ID: {added['id']})")


@command(app, "list-capabilities", "holdfast template list-capabilities first")
def list_capabilities(context: typer.Context, template: TemplateArgument, limit: Limited = 50, json: Json = False) -> None:
    """Shows what sessions of a template may reach."""
    with said(context).client() as client:
        found = plain(list(client.templates.capabilities(template_id(client, template), limit=limit)))
    columns = {"Kind": "kind", "Name": "name", "Enabled": "enabled", "Config": "config", "ID": "id"}
    listing(json, found, columns, "No capabilities found")


@command(app, "remove-capability", "holdfast template remove-capability first 3f2504e0-4f89-41d3-9a0c-0305e82c3301")
def remove_capability(
    context: typer.Context,
    template: TemplateArgument,
    capability: Annotated[str, typer.Argument(metavar="CAPABILITY_ID", help="The capability's id.")],
    json: Json = False,
) -> None:
    """Takes a capability back."""
    with said(context).client() as client:
        found_id = template_id(client, template)
        client.templates.remove_capability(found_id, capability)
    _confirmed(json, {"status": "ok", "template_id": found_id, "id": capability}, f"Removed capability: {capability}")
