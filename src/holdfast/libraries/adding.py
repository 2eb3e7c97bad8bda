"""How libraries come into the cache: packages of npm, a few of Debian, and files."""

import base64
import hashlib
import tempfile
from pathlib import Path
from typing import Final

from holdfast.domain import LibraryUnknown
from holdfast.libraries import bundling, debian, names, npm, wrapping
from holdfast.libraries._errors import LibraryNotAdded
from holdfast.libraries.cache import LARGEST, LibraryCache, checksum
from holdfast.libraries.catalogue import CATALOGUE, RECIPES
from holdfast.libraries.lock import Locked, TooLarge, read_whole

_KNOWN: Final = {library["id"]: library for library in CATALOGUE}


def add_package(cache: LibraryCache, word: str, variable: str | None = None) -> Locked:
    """Adds a library by its name: `lodash`, `lodash@4`, `@scope/name@1.0.0`. One that is there, as it was added, is not fetched again.

    Raises `LibraryUnknown` and `LibraryNotAdded`.
    """
    wanted = names.parse(word)
    _check_variable(variable)
    known = _KNOWN.get(wanted.id)
    if known is not None and names.satisfies(known["version"], wanted.version):
        wanted = names.Name(wanted.id, known["version"], exact=True)
    before = cache.locked(names.full_name(wanted.id, wanted.version)) if wanted.exact else None
    if before is not None and variable in (None, before.variable) and cache.has(before):
        return before
    with tempfile.TemporaryDirectory(prefix="holdfast-libs-") as made:
        folder = Path(made).resolve()
        if known is not None and known["source"] == "debian":
            return _add_debian(cache, wanted, variable, folder)
        return _add_npm(cache, wanted, variable, folder, before)


def _add_npm(cache: LibraryCache, wanted: names.Name, variable: str | None, folder: Path, before: Locked | None) -> Locked:
    packages = before.packages if before is not None and before.source == "npm" else None
    got = npm.fetch(wanted.id, wanted.version, folder, packages)
    names.check_new(got.name, got.version)
    full = names.full_name(got.name, got.version)
    recipe, locked = RECIPES.get(full), before or cache.locked(full)
    for pinned in (recipe.integrity if recipe else None, locked.integrity if locked and locked.source == "npm" else None):
        if pinned is not None and pinned != got.integrity:
            raise LibraryNotAdded(f"{full} is not what it was: its integrity differs", "INTEGRITY_MISMATCH")
    name = wrapping.variable_of(got.name) if variable is None else variable
    text = wrapping.wrapped(got.name, name, bundling.text_of(got, cache.folder))
    return _put(cache, got.name, got.version, "javascript", name, "npm", got.integrity, text, got.packages)


def _add_debian(cache: LibraryCache, wanted: names.Name, variable: str | None, folder: Path) -> Locked:
    recipe = RECIPES.get(names.full_name(wanted.id, wanted.version))
    if recipe is None:
        message = f"only {wanted.id} {_KNOWN[wanted.id]['version']} can be fetched"
        raise LibraryNotAdded(message, "DOWNLOAD_FAILED", "add another version as a file: `holdfast libs add ./file.lua`")
    modules = debian.fetch(recipe.package, recipe.integrity, folder)
    text = wrapping.wrapped_lua(modules, recipe.loaded, variable or "", recipe.before)
    return _put(cache, wanted.id, wanted.version, "lua", variable or "", "debian", recipe.integrity, text)


def add_file(
    cache: LibraryCache, path: Path, library_id: str, version: str, variable: str | None = None, *, replace: bool = False
) -> Locked:
    """Adds a file: a script, a CommonJS or ES module with the files that it needs, or a Lua chunk or module.

    Raises `LibraryNotAdded` if another file was added by this name, unless it is to be replaced.
    """
    _check_variable(variable)
    library_id, version = library_id.strip(), version.strip()
    names.check_new(library_id, version)
    language = "lua" if path.suffix == ".lua" else "javascript"
    data = _read(path)
    text = data.decode("utf-8-sig")
    name = variable or ("" if language == "lua" else wrapping.variable_of(library_id))
    if language == "lua":
        text = wrapping.wrapped_lua({library_id: text}, [library_id], name)
    elif path.suffix == ".mjs" or not bundling.is_plain(text):
        entry = path.resolve()
        text = wrapping.wrapped(library_id, name, bundling.bundle(entry, entry.parent, cache.folder, path.name))
    elif not bundling.is_script(text):
        text = wrapping.wrapped(library_id, name, text)
    integrity = f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}"
    before = cache.locked(names.full_name(library_id, version))
    if before is not None and not replace and (before.language, before.sha256) != (language, checksum(text)):
        message = f"another {names.full_name(library_id, version)} was added before"
        raise LibraryNotAdded(message, "LIBRARY_EXISTS", "give it another version, or say --replace")
    return _put(cache, library_id, version, language, name, "file", integrity, text)


def _put(
    cache: LibraryCache,
    library_id: str,
    version: str,
    language: str,
    variable: str,
    source: str,
    integrity: str,
    text: str,
    packages: dict[str, object] | None = None,
) -> Locked:
    data = text.encode()
    if len(data) > LARGEST:
        raise LibraryNotAdded(f"{library_id} is too large: a library has at most {LARGEST >> 20} MB", "LIBRARY_TOO_LARGE")
    entry = Locked(library_id, version, language, variable, source, integrity, checksum(data), packages or {})
    cache.put(entry, data)
    return entry


def _read(path: Path) -> bytes:
    try:
        data = read_whole(path, LARGEST)
        data.decode("utf-8-sig")
    except TooLarge:
        message = f"{path.name} is too large: a library has at most {LARGEST >> 20} MB"
        raise LibraryNotAdded(message, "LIBRARY_TOO_LARGE") from None
    except FileNotFoundError:
        raise LibraryNotAdded(f"there is no file {path.name[:80]!r}", "FILE_NOT_FOUND") from None
    except (OSError, UnicodeDecodeError):
        raise LibraryNotAdded(f"{path.name[:80]!r} is not text that could be loaded", "FILE_NOT_FOUND") from None
    return data


def _check_variable(variable: str | None) -> None:
    if variable and not wrapping.is_identifier(variable):
        raise LibraryUnknown(f"a global cannot have the name {variable[:80]!r}")
