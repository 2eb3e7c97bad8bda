"""`holdfast strategy`: the packages that strategies come in. `strategy_run` adds the commands that run them."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli._exits import CommandFailed, Exit, usage
from holdfast.cli._places import data_dir, package_path, project_dir
from holdfast.cli._tables import Columns, listing, pairs, table
from holdfast.cli._terminal import harmless, print_json, say
from holdfast.cli.commands import Json, command, group

if TYPE_CHECKING:
    from holdfast.strategies import Folder

app = group("Strategies: packages that ask models, and their runs.")


def _known(incomplete: str) -> list[str]:
    return sorted({one.name for one in package_path().list() if one.name.startswith(incomplete)})


_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a package.", autocompletion=_known)]
_Language = Annotated[str | None, typer.Option("--language", help="javascript or lua, where there are both.")]
_Called = Annotated[str | None, typer.Option("--name", help="The package's name; by default that of the folder or archive.")]
_Force = Annotated[bool, typer.Option("--force", help="Take it in the place of another of this name.")]
_User = Annotated[bool, typer.Option("--user", help="For all projects of this user, not for this one.")]

_COLUMNS: Columns = {
    "Name": "name",
    "Language": "language",
    "Version": "version",
    "From": "source",
    "Category": "category",
    "Description": lambda one: one["error"]["message"] if "error" in one else one["description"],
}


def _folder(user: bool) -> "Folder":
    from holdfast.strategies import project_folder, user_folder

    return user_folder(data_dir()) if user else project_folder(project_dir() or Path.cwd())


def _catalogue(name: str | None, language: str | None) -> Any:
    """What there is, or one of it."""
    from holdfast.sandbox import LANGUAGES, Engine
    from holdfast.strategies import Catalogue

    if language not in (None, *LANGUAGES):
        raise usage(f"--language must be {' or '.join(LANGUAGES)}")
    with Engine() as engine:
        found = Catalogue(package_path(), engine)
        return list(found.all(language)) if name is None else found.show(name, language)


@command(app, "list", "holdfast strategy list", "holdfast strategy list --language lua --json")
def list_packages(language: _Language = None, json: Json = False) -> None:
    """Shows the packages that are found from here: of this project, of HOLDFAST_PACKAGES_PATH, of this user, and bundled ones."""
    listing(json, _catalogue(None, language), _COLUMNS, "No packages found")


@command(app, "show", "holdfast strategy show reflect", "holdfast strategy show reflect --language javascript --text")
def show(
    name: _Name,
    language: _Language = None,
    text: Annotated[bool, typer.Option("--text", help="Print its init file, and nothing else.")] = False,
    json: Json = False,
) -> None:
    """Shows a package: what it says of itself, where it is from, and its files."""
    found = _catalogue(name, language)
    if json:
        print_json(found)
    elif text:
        print(harmless(found["text"], sys.stdout), end="")
    else:
        told = {title: found[cell] if isinstance(cell, str) else cell(found) for title, cell in _COLUMNS.items()}
        pairs(
            told | {"Hides": ", ".join(found["hides"]) or None, "SHA-256": found["sha256"], "Files": ", ".join(found["files"])}
        )
        for entry, about in _entries(found["spec"]):
            pairs({entry: about})


def _entries(spec: Any) -> list[tuple[str, Any]]:
    entries = spec.get("entries") if isinstance(spec, Mapping) else None
    return [(f"Entry {name}", about) for name, about in entries.items()] if isinstance(entries, Mapping) else []


@command(
    app,
    "add",
    "holdfast strategy add ./panel",
    "holdfast strategy add ./panel-1.2.tar.gz --user",
    "holdfast strategy add ./mine.zip --name panel --force",
)
def add(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="A folder, or a .tar.gz, .tgz, .tar or .zip archive.")],
    name: _Called = None,
    force: _Force = False,
    user: _User = False,
    json: Json = False,
) -> None:
    """Adds a package, or all packages of a collection, to this project.

    Its files are copied, and their hashes noted in holdfast.lock: if one is another one later, the package is refused when a script asks
    for it. Nothing of it is run.
    """
    from holdfast.strategies.adding import add as add_to

    found = [one._asdict() for one in add_to(_folder(user), source.expanduser(), name, force=force)]
    if json:
        print_json({"packages": found})
    for one in [] if json else found:
        print(f"{one['name']}: {one['state']}, {one['files']} files, {one['sha256']}")


@command(app, "link", "holdfast strategy link ./panel", "holdfast strategy link ../panel --name mine --user")
def link(
    path: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a package.")],
    name: _Called = None,
    force: _Force = False,
    user: _User = False,
    json: Json = False,
) -> None:
    """Has a folder used as a package where it is: while you write it. No hash is kept, and each change counts at once."""
    from holdfast.strategies.upkeep import link as link_to

    found = link_to(_folder(user), path.expanduser(), name, force=force)
    if json:
        print_json({"name": found, "path": str(path)})
    else:
        print(f"{found}: linked to {path}")


@command(app, "remove", "holdfast strategy remove panel", "holdfast strategy remove panel --user")
def remove(name: _Name, user: _User = False, json: Json = False) -> None:
    """Removes a package, or a link to one, and never what a link leads to. Sessions keep what they have loaded."""
    from holdfast.strategies import PackageNotFound
    from holdfast.strategies.upkeep import remove as remove_from

    try:
        what = remove_from(_folder(user), name)
    except PackageNotFound as error:
        hint = f"`holdfast strategy show {name}` says where it is from; --user is for those of the user"
        raise CommandFailed(str(error), error.code, hint) from None
    if json:
        print_json({"removed": name, "kind": what})
    else:
        print(f"removed the {what} {name}")


@command(app, "verify", "holdfast strategy verify")
def verify(json: Json = False) -> int:
    """Compares the packages of this project and of this user with what was added. Fails if one is changed or missing.

    Others are linked, or were put there by hand: those are taken as they are.
    """
    from dataclasses import asdict

    from holdfast.strategies.upkeep import verify as verify_in

    found = [(folder.source, one) for folder in (_folder(False), _folder(True)) for one in verify_in(folder)]
    bad = [one for _, one in found if one.is_bad]
    if json:
        print_json({"packages": [asdict(one) | {"of": of} for of, one in found], "ok": not bad})
        return Exit.FAILED if bad else Exit.FINE
    files = [[*one.changed, *(f"-{name}" for name in one.missing), *(f"+{name}" for name in one.added)] for _, one in found]
    rows = [
        (one.name, of, one.source, one.state, one.problem or ", ".join(names))
        for (of, one), names in zip(found, files, strict=True)
    ]
    table(["Name", "Of", "Source", "State", "Files"], rows, "No packages found")
    if bad:
        say("`holdfast strategy add SOURCE --force` takes it as it was, or as it is now")
    return Exit.FAILED if bad else Exit.FINE


@command(
    app,
    "scaffold",
    "holdfast strategy scaffold panel",
    "holdfast strategy scaffold panel --language javascript --into ./strategies",
)
def scaffold(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A letter, then letters, digits, _ or -.")],
    language: Annotated[str, typer.Option("--language", help="lua or javascript.")] = "lua",
    into: Annotated[Path, typer.Option("--into", help="The folder in which the package's folder is made.")] = Path(),
    description: Annotated[str, typer.Option("--description", help="What it does, in a sentence.")] = "",
    category: Annotated[str, typer.Option("--category", help="Such as reasoning, selection or refinement.")] = "",
    json: Json = False,
) -> None:
    """Writes a package to begin with: a folder with an init file that runs."""
    from holdfast.strategies.scaffold import scaffold as write

    file = write(into.expanduser(), name, language, description, category)
    if json:
        print_json({"name": name, "language": language, "file": str(file)})
    else:
        print(file)
        say(f"`holdfast strategy link {file.parent}` lets scripts and `holdfast strategy run {name}` find it")
