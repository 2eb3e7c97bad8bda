"""`holdfast template`: modules and libraries, and what there is of both."""

from typing import Annotated, Any

import typer

from holdfast.cli._remote import plain, template_id
from holdfast.cli._terminal import print_json
from holdfast.cli.commands import Json, Limited, TemplateArgument, command, said
from holdfast.cli.commands.template import app

Name = Annotated[str, typer.Option("--name", help="Its name.")]


def _changed(json: bool, found_id: str, name: str, line: str) -> None:
    if json:
        print_json({"template_id": found_id, "name": name})
    else:
        print(line)


def _listed(json: bool, found: list[str], none: str) -> None:
    if json:
        print_json(found)
    else:
        print("\n".join(found) if found else none)


@command(app, "add-module", "holdfast template add-module first --name fs")
def add_module(context: typer.Context, template: TemplateArgument, name: Name, json: Json = False) -> None:
    """Exposes a native module to sessions of a template. Twice is fine."""
    with said(context).client() as client:
        added = client.templates.add_module(template_id(client, template), name)
    _changed(json, added.template_id, added.name, f"Added module: {added.name}")


@command(app, "remove-module", "holdfast template remove-module first --name fs")
def remove_module(context: typer.Context, template: TemplateArgument, name: Name, json: Json = False) -> None:
    """Exposes a native module no longer."""
    with said(context).client() as client:
        found_id = template_id(client, template)
        client.templates.remove_module(found_id, name)
    _changed(json, found_id, name, f"Removed module: {name}")


@command(app, "list-modules", "holdfast template list-modules first")
def list_modules(context: typer.Context, template: TemplateArgument, limit: Limited = 50, json: Json = False) -> None:
    """Shows the native modules that a template exposes, one a line."""
    with said(context).client() as client:
        found = plain(list(client.templates.modules(template_id(client, template), limit=limit)))
    _listed(json, found, "No modules found")


@command(app, "add-library", "holdfast template add-library first --name lodash-4.17.21")
def add_library(context: typer.Context, template: TemplateArgument, name: Name, json: Json = False) -> None:
    """Loads a library in each session of a template. Twice is fine."""
    with said(context).client() as client:
        added = client.templates.add_library(template_id(client, template), name)
    _changed(json, added.template_id, added.name, f"Added library: {added.name}")


@command(app, "remove-library", "holdfast template remove-library first --name lodash-4.17.21")
def remove_library(context: typer.Context, template: TemplateArgument, name: Name, json: Json = False) -> None:
    """Loads a library no longer."""
    with said(context).client() as client:
        found_id = template_id(client, template)
        client.templates.remove_library(found_id, name)
    _changed(json, found_id, name, f"Removed library: {name}")


@command(app, "list-libraries", "holdfast template list-libraries first")
def list_libraries(context: typer.Context, template: TemplateArgument, limit: Limited = 50, json: Json = False) -> None:
    """Shows the libraries that a template loads, one a line."""
    with said(context).client() as client:
        found = plain(list(client.templates.libraries(template_id(client, template), limit=limit)))
    _listed(json, found, "No libraries found")


@command(app, "list-available-modules", "holdfast template list-available-modules")
def list_available_modules(json: Json = False) -> None:
    """Shows the native modules that there are, as JSON. Asks no daemon."""
    from holdfast.capabilities import describe

    _catalogue(tuple(describe()), json)


@command(app, "list-available-libraries", "holdfast template list-available-libraries")
def list_available_libraries(json: Json = False) -> None:
    """Shows the libraries that are known by name, as JSON. Asks no daemon."""
    from holdfast.libraries import CATALOGUE

    _catalogue(CATALOGUE, json)


def _catalogue(entries: tuple[dict[str, Any], ...], json: bool) -> None:
    import json as json_format

    if json:
        print_json(list(entries))
    else:
        print(json_format.dumps(list(entries), indent=2, ensure_ascii=False))
