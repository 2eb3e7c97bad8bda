"""The cache of libraries, and the catalogues."""

import hashlib
import os
from pathlib import Path

import pytest

from holdfast.capabilities import MODULES, check_module
from holdfast.domain import LibraryUnknown, ModuleNotAllowed, SourceFile
from holdfast.libraries import CATALOGUE, LibraryCache, check_library, checksum


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
    assert cache.find("lodash-4.17.21") == SourceFile("lodash-4.17.21.js", "var _ = {}")


def test_a_name_without_a_version_means_that_of_the_catalogue(cache: LibraryCache) -> None:
    assert cache.find("lodash") == cache.find("lodash-4.17.21")
    assert cache.find("custom") is None
    assert cache.find("moment") is None
    assert cache.find("lodash-9.9.9") is None


def test_a_library_is_for_a_language(cache: LibraryCache) -> None:
    assert cache.find("json-1.0") == cache.find("json-1.0", "lua") == SourceFile("json-1.0.lua", "json = {}")
    assert cache.find("json-1.0", "javascript") is None
    assert cache.find("lodash", "lua") is None


@pytest.mark.parametrize(
    "name",
    [
        *[
            "",
            " ",
            ".",
            "..",
            "../outside-1.0.0",
            "a/b-1.0.0",
            "a\\b",
            "-1.0.0",
            "a..b",
            "a\0",
            "\u00e9-1.0.0",
            "a" * 201,
            None,
        ],
        *["@scope/name", "a b", "lodash-4.17.21.js\n/x", "CON:", 7],
    ],
)
def test_a_name_that_could_lead_elsewhere_is_none(cache: LibraryCache, name: str) -> None:
    with pytest.raises(LibraryUnknown):
        check_library(name)
    with pytest.raises(LibraryUnknown):
        cache.find(name)


@pytest.mark.parametrize("name", ["lodash", "lodash-4.17.21", "lodash.get-4.4.2", "a-1.0.0-beta.2", "x_y", "A1-2.0.0+build"])
def test_names_of_libraries(name: str) -> None:
    assert check_library(f" {name}\t") == name


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    cache = LibraryCache(os.fspath(tmp_path / "nothing"))
    assert cache.scan() == []
    assert cache.find("lodash") is None
    (tmp_path / "nothing").mkdir()
    (tmp_path / "nothing" / "lodash-4.17.21.js").write_text("here")  # it is seen at once
    assert cache.find("lodash") == SourceFile("lodash-4.17.21.js", "here")


def test_the_catalogue_of_libraries() -> None:
    assert {library["id"]: (library["version"], library["config"]["global"]) for library in CATALOGUE} == {
        "lodash": ("4.17.21", "_"),
        "moment": ("2.29.4", "moment"),
        "axios": ("1.6.0", "axios"),
        "ramda": ("0.29.0", "R"),
        "dayjs": ("1.11.10", "dayjs"),
        "zustand": ("4.4.7", "zustand"),
    }
    for library in CATALOGUE:
        assert library.keys() == {"id", "name", "version", "description", "source", "type", "config"}
        assert check_library(f"{library['id']}-{library['version']}")


def test_the_catalogue_of_modules() -> None:
    assert [module["name"] for module in MODULES] == ["fs", "exec", "database"]
    for module in MODULES:
        assert module.keys() == {"id", "name", "kind", "description", "functions", "config"}
        assert check_module(f"  {module['name'].upper()} ") == module["name"]


@pytest.mark.parametrize("name", ["json", "JSON", "console", "math", "date", "array", "string", "object", "promise"])
def test_what_the_language_has_is_no_module(name: str) -> None:
    with pytest.raises(ModuleNotAllowed, match="part of the language"):
        check_module(name)


@pytest.mark.parametrize("name", ["", "  ", "net", "fs/promises", "../fs", None, 7, "x" * 1000])
def test_an_unknown_module_is_not_allowed(name: str) -> None:
    with pytest.raises(ModuleNotAllowed):
        check_module(name)
