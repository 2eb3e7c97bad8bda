"""`holdfast libs`: the libraries that templates may load, and the folder in which they lie."""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from holdfast.cli._exits import CommandFailed, Exit, usage
from holdfast.cli._tables import table
from holdfast.cli._terminal import print_json, say
from holdfast.cli.commands import Json, command, group, said

app = group("Libraries that templates may load.")

_FILES: Final = (".js", ".mjs", ".cjs", ".lua")
_Global = Annotated[str | None, typer.Option("--global", help="The global that it leaves; by default its name.")]


def _cache(context: typer.Context) -> Any:
    from holdfast.libraries import LibraryCache

    return LibraryCache(said(context).loaded().config.libraries_dir)


@command(app, "list", "holdfast libs list", "holdfast libs list --json")
def list_libraries(context: typer.Context, json: Json = False) -> None:
    """Shows the libraries that are known by name, and those that were added."""
    from holdfast.libraries import CATALOGUE

    there = {(one.id, one.version): one.state for one in _cache(context).verify()}
    rows = [{**one, "cached": there.pop((one["id"], one["version"]), "")} for one in CATALOGUE]
    for (library_id, version), state in there.items():
        locked = _cache(context).locked(f"{library_id}-{version}")
        config = {"global": locked.variable, "language": locked.language} if locked else {}
        source = locked.source if locked else "file"
        one = {"id": library_id, "name": library_id, "version": version, "description": "", "source": source, "type": source}
        rows.append({**one, "config": config, "cached": state})
    if json:
        print_json(rows)
        return
    lines = [
        (one["id"], one["version"], one["config"].get("global"), one["source"], one["cached"] or "no", one["description"])
        for one in rows
    ]
    table(["ID", "Version", "Global", "Source", "Cached", "Description"], lines, "No libraries found")


@command(
    app,
    "add",
    "holdfast libs add lodash@4.17.21",
    "holdfast libs add ./file.js --name x --version 1",
)
def add(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(help="NAME, NAME@VERSION, @SCOPE/NAME@VERSION, or a file.")],
    name: Annotated[str | None, typer.Option("--name", help="The name of a file's library.")] = None,
    version: Annotated[str | None, typer.Option("--version", help="The version of a file's library.")] = None,
    variable: _Global = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take a file in the place of another of this version.")] = False,
    json: Json = False,
) -> None:
    """Fetches libraries with npm, or takes a file, into the folder in which the daemon looks for them.

    What was fetched is checked, made into one file where it needs others, and noted in a lock.
    """
    files = [word for word in names if word.endswith(_FILES) and (word.startswith((".", "/", "~")) or Path(word).is_file())]
    if files:
        if len(names) > 1 or name is None or version is None:
            raise usage("a file needs a name and a version, and comes alone", "say --name NAME --version VERSION")
    elif name is not None or version is not None or replace:
        raise usage("--name, --version and --replace are for files", "say NAME@VERSION, or give a file as ./file.js")
    elif variable is not None and len(names) > 1:
        raise usage("one global is for one library")
    _add(context, names, json, (name, version) if files else None, variable, replace=replace)


@command(app, "download", "holdfast libs download")
def download(context: typer.Context, json: Json = False) -> None:
    """Adds all libraries for JavaScript that are known by name."""
    from holdfast.libraries import CATALOGUE

    _add(context, [one["id"] for one in CATALOGUE if one["source"] == "npm"], json)


def _add(
    context: typer.Context,
    names: list[str],
    json: bool,
    file: tuple[str | None, str | None] | None = None,
    variable: str | None = None,
    *,
    replace: bool = False,
) -> None:
    from holdfast.libraries import LibraryNotAdded
    from holdfast.libraries.adding import add_file, add_package

    cache = _cache(context)
    added: list[dict[str, Any]] = []
    for word in names:
        say(f"adding {word}")
        try:
            if file is not None:
                entry = add_file(cache, Path(word).expanduser(), file[0] or "", file[1] or "", variable, replace=replace)
            else:
                entry = add_package(cache, word, variable)
        except LibraryNotAdded as error:
            raise CommandFailed(str(error), error.reason, error.hint) from None
        shown = {"id": entry.id, "version": entry.version, "language": entry.language, "global": entry.variable}
        added.append({**shown, "source": entry.source, "integrity": entry.integrity, "sha256": entry.sha256})
    if json:
        print_json({"path": str(cache.folder), "libraries": added})
    for one in [] if json else added:
        print(f"{one['id']}-{one['version']}: {one['integrity']}")


@command(app, "remove", "holdfast libs remove lodash@4.17.21")
def remove(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="NAME for all its versions, or NAME@VERSION.")],
    json: Json = False,
) -> None:
    """Removes a library from the folder. Templates that were made with it keep it."""
    from holdfast.libraries import LibraryNotAdded

    try:
        gone = _cache(context).remove(name)
    except LibraryNotAdded as error:
        raise CommandFailed(str(error), error.reason, error.hint) from None
    if not gone:
        raise CommandFailed(f"there is no library {name[:80]!r} in the folder", "LIBRARY_NOT_FOUND")
    if json:
        print_json({"removed": gone})
    for filename in [] if json else gone:
        print(f"removed {filename}")


@command(app, "verify", "holdfast libs verify")
def verify(context: typer.Context, json: Json = False) -> int:
    """Checks that each library is what was added: ok, by hand, changed or missing. Fails if one is changed or missing."""
    found = [one._asdict() for one in _cache(context).verify()]
    bad = [one for one in found if one["state"] in ("changed", "missing")]
    if json:
        print_json({"libraries": found, "ok": not bad})
    else:
        rows = [(one["filename"], one["id"], one["version"], one["state"]) for one in found]
        table(["File", "ID", "Version", "State"], rows, "No libraries found")
        for one in bad:
            say(f"`holdfast libs add {one['id']}@{one['version']}` adds it again")
    return Exit.FAILED if bad else Exit.FINE


@command(app, "cache-info", "holdfast libs cache-info")
def cache_info(context: typer.Context, json: Json = False) -> None:
    """Shows the libraries that are there to be loaded."""
    cache = _cache(context)
    found = [one._asdict() for one in cache.scan()]
    total = sum(one["bytes"] for one in found)
    if json:
        print_json({"path": str(cache.folder), "libraries": found, "bytes": total})
        return
    print(f"Cache: {cache.folder}")
    rows = [(one["filename"], one["id"], one["version"], one["bytes"], one["sha256"]) for one in found]
    table(["File", "ID", "Version", "Bytes", "SHA-256"], rows, "No libraries found")
    print(f"Total: {total} bytes")
