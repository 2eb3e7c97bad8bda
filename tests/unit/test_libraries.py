"""The cache of libraries: names, versions, the lock, and files that are not what they seem. No network, and no npm."""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from holdfast.capabilities import check_module, describe
from holdfast.domain import LibraryNotCached, LibraryUnknown, ModuleNotAllowed, SourceFile
from holdfast.libraries import CATALOGUE, LibraryCache, LibraryNotAdded, check_library, checksum, is_meant
from holdfast.libraries.adding import add_file
from holdfast.libraries.bundling import is_plain, is_script
from holdfast.libraries.catalogue import RECIPES
from holdfast.libraries.debian import modules_of
from holdfast.libraries.lock import LOCK
from holdfast.libraries.names import Name, order, parse, satisfies


@pytest.fixture
def cache(tmp_path: Path) -> LibraryCache:
    folder = tmp_path / "libraries"
    folder.mkdir()
    (folder / "lodash-4.17.21.js").write_text("var _ = {}")
    (folder / "lodash-3.0.0.js").write_text("old")
    (folder / "custom.js").write_text("custom")
    (folder / "json-1.0.lua").write_text("json = {}")
    (tmp_path / "outside-1.0.0.js").write_text("secret")
    return LibraryCache(folder)


def added(cache: LibraryCache, text: str, name: str, version: str, ending: str = "js", **options: bool) -> Path:
    file = cache.folder.parent / f"given.{ending}"
    file.write_text(text)
    entry = add_file(cache, file, name, version, **options)
    return cache.folder / f"{entry.id.replace('/', '+')}-{entry.version}.{ending}"


# ---- names


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("lodash", Name("lodash")),
        (" lodash@4\t", Name("lodash", "4")),
        ("lodash@^4.1", Name("lodash", "^4.1")),
        ("lodash@latest", Name("lodash", "latest")),
        ("lodash@4.17.21", Name("lodash", "4.17.21", exact=True)),
        ("lodash-4.17.21", Name("lodash", "4.17.21", exact=True)),
        ("lodash.get-4.4.2", Name("lodash.get", "4.4.2", exact=True)),
        ("base-64-1.0.0", Name("base-64", "1.0.0", exact=True)),
        ("a-1.0.0-beta.2", Name("a", "1.0.0-beta.2", exact=True)),
        ("A1-2.0.0+build", Name("A1", "2.0.0+build", exact=True)),
        ("x_y", Name("x_y")),
        ("@scope/name@1.0.0", Name("@scope/name", "1.0.0", exact=True)),
        ("@scope/name", Name("@scope/name")),
        ("@scope+name-1.0.0", Name("@scope/name", "1.0.0", exact=True)),
    ],
)
def test_what_a_name_means(word: str, meant: Name) -> None:
    assert parse(word) == meant
    assert check_library(word) == word.strip()


BAD = [
    *["", " ", ".", "..", "../outside-1.0.0", "a/b-1.0.0", "a\\b", "-1.0.0", "a..b", "a\0", "\u00e9-1.0.0", "a" * 201, None, 7],
    *["@scope", "@/name", "@scope/", "@scope/../x", "@a/b/c", "@scope/name/x@1.0.0", "a b", "lodash-4.17.21.js\n/x", "CON:"],
    *["lodash@file:../x", "lodash@git+ssh://x/y", "lodash@npm:evil@1.0.0", "lodash@../x", "lodash@>1", "a@" + "9" * 16, "--x"],
]


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_could_lead_elsewhere_is_none(cache: LibraryCache, name: str) -> None:
    for call in (check_library, cache.find, cache.resolve):
        with pytest.raises(LibraryUnknown):
            call(name)


def test_ranges_and_their_order() -> None:
    versions = ["4.17.21", "4.18.0-beta.2", "4.18.0-beta.10", "4.18.0", "0.2.3", "10.0.0", "2.6"]
    for wanted, found in {
        "4": ["4.17.21", "4.18.0"],
        "4.x": ["4.17.21", "4.18.0"],
        "~4.17.1": ["4.17.21"],
        "^4.17.22": ["4.18.0"],
        "^0.2.1": ["0.2.3"],
        "^0.1.0": [],
        "4.18.0-beta.2": ["4.18.0-beta.2"],
        "2.6": ["2.6"],
        "*": ["4.17.21", "4.18.0", "0.2.3", "10.0.0", "2.6"],
        "nonsense": [],
    }.items():
        assert [version for version in versions if satisfies(version, wanted)] == found, wanted
    assert sorted(versions, key=order) == [*versions[4:5], versions[6], *versions[:4], versions[5]]


def test_names_resolve_to_one_version(cache: LibraryCache) -> None:
    for word in ("lodash", "lodash@4", "lodash-4", "lodash@4.17.21", "lodash-4.17.21", "lodash@^4.0.0", "lodash@latest"):
        assert cache.resolve(word) == "lodash-4.17.21", word
    assert cache.resolve("lodash@3") == "lodash-3.0.0"
    assert cache.resolve("moment") == "moment-2.29.4"  # not there, but the catalogue says which is meant
    assert cache.resolve("other-1.2.3") == "other-1.2.3"
    added(cache, "", "base-64", "1.0.0")
    assert cache.resolve("base-64") == "base-64-1.0.0"
    for word in ("custom", "lodash@5", "moment@3", "base-65"):
        with pytest.raises(LibraryNotCached) as raised:
            cache.resolve(word)
        assert raised.value.details["command"] == f"holdfast libs add {word}"
    assert is_meant("lodash", "lodash-4.17.21")
    assert is_meant("@s+x", "@s/x-1")
    assert not is_meant("lodash@3", "lodash-4.17.21")
    assert not is_meant("../x", "lodash-4.17.21")


def test_without_the_version_of_the_catalogue_the_newest_is_meant(cache: LibraryCache) -> None:
    (cache.folder / "lodash-4.17.21.js").unlink()
    (cache.folder / "lodash-4.9.0.js").write_text("")
    (cache.folder / "lodash-4.10.0.js").write_text("")
    assert cache.resolve("lodash") == cache.resolve("lodash@4") == "lodash-4.10.0"
    assert cache.resolve("lodash", "lua") == "lodash-4.17.21"


# ---- files


def test_cac_01_a_scan_finds_what_has_a_version(cache: LibraryCache) -> None:
    (cache.folder / "folder-1.0.0.js").mkdir()
    (cache.folder / "notes-1.0.0.txt").write_text("no code")
    (cache.folder / "bytes-1.0.0.js").write_bytes(b"\xff")
    (cache.folder / "partial-1.0.0.js.tmp").write_text("half")
    assert [(found.id, found.version) for found in cache.scan()] == [
        ("json", "1.0"),
        ("lodash", "3.0.0"),
        ("lodash", "4.17.21"),
    ]


def test_cac_03_a_library_comes_with_its_text_and_checksum(cache: LibraryCache) -> None:
    found = cache.scan()[-1]
    assert found.filename == "lodash-4.17.21.js"
    assert found.sha256 == checksum("var _ = {}") == hashlib.sha256(b"var _ = {}").hexdigest()
    assert found.bytes == 10
    assert cache.find("lodash-4.17.21") == cache.find("lodash") == SourceFile("lodash-4.17.21.js", "var _ = {}")


def test_a_library_is_for_a_language(cache: LibraryCache) -> None:
    assert cache.find("json-1.0") == cache.find("json-1.0", "lua") == SourceFile("json-1.0.lua", "json = {}")
    assert cache.find("json-1.0", "javascript") is None
    assert cache.find("lodash", "lua") is None


def test_all_that_is_missing_is_told_with_the_command(cache: LibraryCache) -> None:
    assert len(cache.load(["lodash", "lodash@4", "lodash-3.0.0"], "javascript")) == 2
    with pytest.raises(LibraryNotCached, match="failed to load libraries") as raised:
        cache.load(["lodash", "moment-2.29.4", "@s/x-1.0.0"], "javascript")
    assert raised.value.details == {
        "libraries": ["moment-2.29.4", "@s/x-1.0.0"],
        "command": "holdfast libs add moment@2.29.4 @s/x@1.0.0",
    }
    assert str(cache.folder) not in str(raised.value)


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    cache = LibraryCache(os.fspath(tmp_path / "nothing"))
    assert cache.scan() == cache.verify() == []
    assert cache.find("lodash") is None
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "lodash-4.17.21.js").write_text("here")  # it is seen at once
    assert cache.find("lodash") == SourceFile("lodash-4.17.21.js", "here")


# ---- what was added


def test_a_file_is_added_verified_and_removed(cache: LibraryCache) -> None:
    plain = added(cache, "var plain = 7;", "plain", "1")
    assert plain.read_text() == "var plain = 7;"  # a script is taken as it is
    assert plain.stat().st_mode & 0o077 == 0
    scoped = added(cache, "#!/usr/bin/env node\nmodule.exports = 1", "@scope/name", "1.0.0-beta.1")
    assert scoped.name == "@scope+name-1.0.0-beta.1.js"
    assert cache.resolve("plain") == cache.resolve("plain@1") == cache.resolve("plain-1") == "plain-1"
    states = {one.filename: one.state for one in cache.verify()}
    assert states == {
        "@scope+name-1.0.0-beta.1.js": "ok",
        "json-1.0.lua": "by hand",
        "lodash-3.0.0.js": "by hand",
        "lodash-4.17.21.js": "by hand",
        "plain-1.js": "ok",
    }
    locked = json.loads((cache.folder / LOCK).read_text())["libraries"]["plain-1.js"]
    assert (locked["id"], locked["version"], locked["variable"]) == ("plain", "1", "plain")
    assert locked["integrity"].startswith("sha256-")
    assert cache.remove("lodash@3") == ["lodash-3.0.0.js"]
    assert cache.remove("@scope/name") == ["@scope+name-1.0.0-beta.1.js"]
    assert cache.remove("plain") == ["plain-1.js"]
    assert cache.remove("plain") == []
    assert [one.filename for one in cache.scan()] == ["json-1.0.lua", "lodash-4.17.21.js"]


def test_a_version_is_not_silently_another(cache: LibraryCache) -> None:
    added(cache, "var a = 1", "a", "1.0.0")
    added(cache, "var a = 1", "a", "1.0.0")  # the same again
    with pytest.raises(LibraryNotAdded) as raised:
        added(cache, "var a = 2", "a", "1.0.0")
    assert raised.value.reason == "LIBRARY_EXISTS"
    assert added(cache, "var a = 2", "a", "1.0.0", replace=True).read_text() == "var a = 2"


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("../x", "1"),
        ("x", "../1"),
        ("x", ""),
        ("x", "one"),
        ("x-1.0", "2.0"),
        ("x", "1-2"),
        ("@a/b/c", "1"),
        ("", "1"),
        ("x", "1/2"),
    ],
)
def test_a_file_is_not_added_by_a_name_that_leads_elsewhere(cache: LibraryCache, name: str, version: str) -> None:
    with pytest.raises(LibraryUnknown):
        added(cache, "", name, version)


def test_what_was_changed_is_not_loaded(cache: LibraryCache) -> None:
    file = added(cache, "var a = 1", "a", "1.0.0")
    file.write_text("var a = 'evil'")
    assert cache.find("a") is None
    assert next(one.state for one in cache.verify()) == "changed"
    with pytest.raises(LibraryNotCached):
        cache.load(["a-1.0.0"], "javascript")
    file.unlink()
    file.symlink_to(cache.folder.parent / "outside-1.0.0.js")
    assert cache.find("a") is None
    file.unlink()
    assert next(one.state for one in cache.verify()) == "missing"
    added(cache, "var a = 1", "a", "1.0.0")
    assert cache.find("a") == SourceFile("a-1.0.0.js", "var a = 1")


ENTRY = {"language": "javascript", "variable": "", "source": "file", "integrity": "", "sha256": "", "packages": {}}


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            "{",
            "[]",
            "null",
            '{"format": 1}',
            '{"format": 2, "libraries": {}}',
            "[" * 100_000,
            '{"format": 1, "libraries": 7}',
        ],
        json.dumps({"format": 1, "libraries": {"../outside-1.0.0.js": {"id": "../outside", "version": "1.0.0", **ENTRY}}}),
        json.dumps({"format": 1, "libraries": {"../outside-1.0.0.js": {"id": "outside", "version": "1.0.0", **ENTRY}}}),
        json.dumps({"format": 1, "libraries": {"a-1.js": {"id": ["a"], "version": 1, **ENTRY}}}),
    ],
)
def test_a_lock_that_makes_no_sense_is_none(cache: LibraryCache, text: str) -> None:
    (cache.folder / LOCK).write_text(text)
    assert cache.find("lodash") is not None
    assert cache.remove("outside") == []
    assert (cache.folder.parent / "outside-1.0.0.js").exists()
    added(cache, "var a = 1", "a", "1.0.0")
    assert cache.find("a") is not None


def test_two_processes_that_add_at_once_lose_nothing(cache: LibraryCache, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from holdfast.libraries import LibraryCache; from holdfast.libraries.adding import add_file\n"
        "for n in range(8): add_file(LibraryCache(sys.argv[1]), Path(sys.argv[2]), f'{sys.argv[3]}{n}', '1.0.0')"
    )
    file = tmp_path / "same.js"
    file.write_text("var same = 1")
    running = [subprocess.Popen([sys.executable, "-c", program, cache.folder, file, who]) for who in ("a", "b")]
    assert [process.wait(60) for process in running] == [0, 0]
    states = [one.state for one in cache.verify()]
    assert (states.count("ok"), states.count("by hand")) == (16, 3)
    assert not list(cache.folder.glob(".new-*"))


def test_a_file_that_cannot_be_a_library(cache: LibraryCache, tmp_path: Path) -> None:
    (tmp_path / "bytes.js").write_bytes(b"\xff\xfe")
    with (tmp_path / "large.js").open("wb") as file:
        file.truncate((16 << 20) + 1)
    os.mkfifo(tmp_path / "pipe.js")
    for name, reason in {
        "none.js": "FILE_NOT_FOUND",
        "bytes.js": "FILE_NOT_FOUND",
        "large.js": "LIBRARY_TOO_LARGE",
        "pipe.js": "FILE_NOT_FOUND",
    }.items():
        with pytest.raises(LibraryNotAdded) as raised:
            add_file(cache, tmp_path / name, "x", "1")
        assert raised.value.reason == reason
        assert str(tmp_path) not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "plain", "script"),
    [
        ("var x = 1", True, True),
        ("module.exports = 1", True, False),
        ("a.require('x'); exports.x = 1", True, False),
        ("const x = require('x')", False, False),
        ("import x from 'x'", False, False),
        ("a();export{a as default}", False, False),
        ("export default 1", False, False),
        ("x = import('y')", False, False),
        ("x = import.meta.url", False, False),
        ("exported(); important()", True, True),
    ],
)
def test_which_files_need_nothing_else(text: str, plain: bool, script: bool) -> None:
    assert (is_plain(text), is_script(text)) == (plain, script)


def test_a_package_of_debian_is_read_and_its_links_are_not_followed() -> None:
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode="w:xz") as archive:
        for name, text in {"5.1/pl/List.lua": "L", "5.1/pl/init.lua": "I", "5.1/notes.txt": "N"}.items():
            member = tarfile.TarInfo(f"./usr/share/lua/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("./usr/share/lua/5.4/evil.lua")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)

    def part(name: str, data: bytes) -> bytes:
        return f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data + b"\n" * (len(data) % 2)

    package = b"!<arch>\n" + part("debian-binary", b"2.0") + part("data.tar.xz", inner.getvalue())
    assert modules_of(package) == {"pl.List": "L", "pl": "I"}
    for bad in (b"", package[:90], package[:-100], b"!<arch>\n" + part("data.tar.xz", b"nonsense"), b"!<arch>\n" + b"x" * 80):
        with pytest.raises(LibraryNotAdded):
            modules_of(bad)


# ---- catalogues


def test_the_catalogue_of_libraries() -> None:
    assert {library["id"]: (library["version"], library["config"]["global"]) for library in CATALOGUE} == {
        "lodash": ("4.17.21", "_"),
        "moment": ("2.29.4", "moment"),
        "axios": ("1.6.0", "axios"),
        "ramda": ("0.29.0", "R"),
        "dayjs": ("1.11.10", "dayjs"),
        "zustand": ("4.4.7", "zustand"),
        "penlight": ("1.13.1", ""),
        "inspect": ("3.1.1", ""),
        "dkjson": ("2.6", ""),
        "argparse": ("0.7.1", ""),
    }
    for library in CATALOGUE:
        assert library.keys() == {"id", "name", "version", "description", "source", "type", "config"}
        assert check_library(f"{library['id']}-{library['version']}")
    assert RECIPES.keys() == {f"{library['id']}-{library['version']}" for library in CATALOGUE}
    assert all(recipe.integrity.startswith(("sha512-", "sha256-")) for recipe in RECIPES.values())


def test_the_catalogue_of_modules() -> None:
    assert {"fs", "exec", "database"} <= {module["name"] for module in describe()}
    for module in describe():
        assert check_module(f"  {module['name'].upper()} ") == module["name"]


@pytest.mark.parametrize("name", ["json", "JSON", "console", "math", "date", "array", "string", "object", "promise"])
def test_what_the_language_has_is_no_module(name: str) -> None:
    with pytest.raises(ModuleNotAllowed, match="part of the language"):
        check_module(name)


@pytest.mark.parametrize("name", ["", "  ", "net", "fs/promises", "../fs", None, 7, "x" * 1000])
def test_an_unknown_module_is_not_allowed(name: str) -> None:
    with pytest.raises(ModuleNotAllowed):
        check_module(name)
