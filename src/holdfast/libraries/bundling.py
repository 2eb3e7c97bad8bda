"""From a package to one file. A file that needs nothing else is taken as it is; others are bundled with all that they need by esbuild.

esbuild is a package of npm, pinned by version and integrity in `bundler`, and installed beside the libraries once. Its binary is run
as it is, and never a script of a package. What it reads must lie in the folder that npm has filled: a package that asks for a file of the
machine is refused.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from holdfast.libraries import catalogue
from holdfast.libraries._errors import LibraryNotAdded
from holdfast.libraries._process import run
from holdfast.libraries.cache import LARGEST
from holdfast.libraries.lock import TooLarge, read_whole
from holdfast.libraries.npm import Fetched, install

_HERE: Final = Path(__file__).parent
_PINNED: Final = _HERE / "bundler"
_ENTRIES: Final = _HERE / "entries"
_TOOLS: Final = ".tools"
_REQUIRES: Final = re.compile(r"(?<![.\w$])require\s*\(")
_ES_MODULE: Final = re.compile(
    r"(?:^|[;}\n])\s*(?:export\s*[{*]|export\s+(?:default|const|let|var|function|class|async)\b|import\s*[{*\"']|import\s+[\w$])"
)
_META: Final = re.compile(r"\bimport\s*(?:\.\s*meta|\()")
_EXPORTS: Final = re.compile(r"\bexports\b")
_UNIVERSAL: Final = re.compile(r"\btypeof\s+(?:exports|module)\b|\bmodule\.exports\b")
"""A file for browsers that is also a CommonJS module. Others leave a global, and nothing for `require`."""
_OPTIONS: Final = (
    "--bundle",
    "--format=cjs",
    "--platform=browser",
    "--target=es2023",
    "--charset=utf8",
    "--minify-whitespace",
    "--minify-syntax",
    "--legal-comments=inline",
    "--tsconfig-raw={}",
    '--define:process.env.NODE_ENV="production"',
    "--define:global=globalThis",
    "--log-level=error",
    "--log-limit=3",
    "--color=false",
)


def is_plain(text: str) -> bool:
    """Whether a CommonJS file needs nothing else: no other file, and no bundler."""
    return not (_REQUIRES.search(text) or _ES_MODULE.search(text) or _META.search(text))


def is_script(text: str) -> bool:
    """Whether a file neither imports nor exports anything."""
    return is_plain(text) and not _EXPORTS.search(text)


def text_of(package: Fetched, tools: Path) -> str:
    """One CommonJS file with a package and all that it needs."""
    if package.name not in catalogue.ENTRIES:
        text = _plain_file(package)
        if text is not None:
            return text
        entries = [
            f"module.exports = require({json.dumps(package.name)});",
            f"import * as all from {json.dumps(package.name)}; export * from {json.dumps(package.name)}; export default all.default;",
        ]
    else:
        entries = [(_ENTRIES / f"{package.name}.js").read_text()]
    problem: LibraryNotAdded | None = None
    for entry in entries:  # the second is for packages that can only be imported
        file = package.folder / "holdfast-entry.js"
        file.write_text(entry)
        try:
            return bundle(file, package.folder, tools, package.name)
        except LibraryNotAdded as error:
            if problem is None:
                problem = error
            if "conditions" not in error.said:
                break
    assert problem is not None
    raise problem


def bundle(entry: Path, folder: Path, tools: Path, what: str) -> str:
    """A file with all that it needs of a folder, as CommonJS."""
    esbuild = _esbuild(tools)
    with tempfile.TemporaryDirectory() as made:
        out, meta = Path(made) / "bundle.js", Path(made) / "meta.json"
        command = [str(esbuild), str(entry), *_OPTIONS, f"--outfile={out}", f"--metafile={meta}"]
        run(command, folder, "BUNDLE_FAILED", f"{what} cannot be made into one file")
        inputs: dict[str, Any] = json.loads(meta.read_bytes())["inputs"]
        root = folder.resolve()
        for name in inputs:
            if not name.startswith(("<", "(disabled):")) and not (folder / name).resolve().is_relative_to(root):
                raise LibraryNotAdded(f"{what} asks for a file that is not its own", "BUNDLE_FAILED")
        return _read(out, what)


def _plain_file(package: Fetched) -> str | None:
    """The file of a package that needs nothing else, if it has one: that for browsers, or its entry point."""
    recipe = catalogue.RECIPES.get(f"{package.name}-{package.version}")
    if recipe is not None and recipe.file:
        return _read(package.home / recipe.file, package.name)
    try:
        about = json.loads((package.home / "package.json").read_bytes())
    except (OSError, ValueError):
        about = None
    if not isinstance(about, dict):
        raise LibraryNotAdded(f"{package.name} is not a package", "DOWNLOAD_FAILED")
    named = [(about.get(key), _UNIVERSAL) for key in ("jsdelivr", "unpkg")]
    if about.get("type") != "module" and "exports" not in about:
        named.append((about.get("main") or "index.js", _EXPORTS))
    root = package.home.resolve()
    for name, exporting in named:
        if not isinstance(name, str):
            continue
        for path in (package.home / name, package.home / f"{name}.js", package.home / name / "index.js"):
            if path.suffix in (".js", ".cjs") and path.is_file() and path.resolve().is_relative_to(root):
                text = _read(path, package.name)
                if is_plain(text) and exporting.search(text):
                    return text
                break
    return None


def _read(path: Path, what: str) -> str:
    try:
        return read_whole(path, LARGEST).decode("utf-8-sig")
    except TooLarge:
        raise LibraryNotAdded(f"{what} is too large: a library has at most {LARGEST >> 20} MB", "LIBRARY_TOO_LARGE") from None
    except (OSError, UnicodeDecodeError):
        raise LibraryNotAdded(f"{what} has no text that could be loaded", "BUNDLE_FAILED") from None


def _esbuild(tools: Path) -> Path:
    """The bundler, installed if it is not there. Two who do so at once install the same."""
    pinned = json.loads((_PINNED / "package.json").read_bytes())["dependencies"]["esbuild"]
    folder = tools / _TOOLS / f"esbuild-{pinned}-{sys.platform}"
    found = _binary(folder)
    if found is None:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
        try:
            install(_PINNED, made)
            if _binary(made) is None:
                raise LibraryNotAdded("there is no bundler for this platform", "BUNDLE_FAILED")
            if _binary(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)  # half of one
            try:
                made.rename(folder)
            except OSError:  # somebody else was first
                if _binary(folder) is None:
                    raise
            found = _binary(folder)
        except OSError as error:
            message = f"the bundler cannot be installed: {error.strerror}"
            raise LibraryNotAdded(message, "CACHE_NOT_WRITABLE") from None
        finally:
            shutil.rmtree(made, ignore_errors=True)
    if found is None:
        raise LibraryNotAdded("the bundler was removed while it was needed", "BUNDLE_FAILED", "try again")
    return found


def _binary(folder: Path) -> Path | None:
    name = "*/esbuild.exe" if sys.platform == "win32" else "*/bin/esbuild"
    found = next(iter(sorted((folder / "node_modules" / "@esbuild").glob(name))), None)
    return found if found is not None and os.access(found, os.X_OK) else None
