"""`holdfast strategy list`, `show`, `add`, `link`, `remove`, `verify` and `scaffold`: at a terminal, in a project."""

import tarfile

import pytest

from holdfast.cli.commands import strategy
from tests.integration.cli_process import Terminal, environment


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def holdfast(data, tmp_path, capsys, monkeypatch):
    for name, value in environment(data).items():
        if name.startswith(("HOLDFAST_", "NO_COLOR")):
            monkeypatch.setenv(name, value)
    for name in ("HOLDFAST_SERVER_URL", "HOLDFAST_PROJECT_DIR", "HOLDFAST_PACKAGES_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return Terminal(capsys)


def test_from_a_new_package_to_a_locked_one(holdfast, tmp_path, monkeypatch):
    words = ["scaffold", "panel", "--description", 'Says "yes"\nand no', "--into", "work"]
    said = holdfast("strategy", *words)
    assert (said.code, said.out) == (0, "work/panel/init.lua\n")
    assert "holdfast strategy link work/panel" in said.err
    assert holdfast("strategy", *words).code == 4
    assert holdfast("strategy", *words, "--language", "javascript", "--json").json == {
        "name": "panel",
        "language": "javascript",
        "file": "work/panel/init.js",
    }
    assert holdfast("strategy", "scaffold", "../x").code == 1
    assert holdfast("strategy", "link", "work/panel").out == "panel: linked to work/panel\n"
    rows = {(one["name"], one["language"]): one for one in holdfast("strategy", "list", "--json").json}
    for language in ("lua", "javascript"):
        assert rows["panel", language]["source"] == "link"
        assert rows["panel", language]["description"] == 'Says "yes"\nand no'
        assert rows["reflect", language]["source"] == "bundled"
    table = holdfast("strategy", "list", "--language", "lua").out.splitlines()
    assert table[0].split() == ["Name", "Language", "Version", "From", "Category", "Description"]
    assert len(table) == 5
    assert holdfast("strategy", "remove", "panel").out == "removed the link panel\n"
    assert (tmp_path / "work/panel/init.lua").exists()

    with tarfile.open("panel-1.0.tar.gz", "w:gz") as archive:
        archive.add("work/panel", "panel-1.0")
    assert holdfast("strategy", "add", "panel-1.0.tar.gz").out.startswith("panel: added, 2 files, ")
    assert holdfast("strategy", "add", "work/panel", "--json").json["packages"][0]["state"] == "unchanged"
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")  # the project is found upwards
    assert holdfast("strategy", "show", "panel", "--json").json["source"] == "project"
    assert holdfast("strategy", "verify", "--json").json["ok"] is True
    (tmp_path / ".holdfast/packages/panel/init.lua").write_text("return 'other'")
    said = holdfast("strategy", "verify")
    assert said.code == 1
    assert said.out.splitlines()[1].split() == ["panel", "project", "panel", "changed", "init.lua"]
    said = holdfast("strategy", "show", "panel")
    assert said.code == 4
    assert "(PACKAGE_CHANGED)" in said.err
    assert "is not what was added" in holdfast("strategy", "list").out
    said = holdfast("strategy", "add", str(tmp_path / "work/panel"))
    assert said.code == 4
    assert "--force" in said.err
    assert ": replaced, " in holdfast("strategy", "add", str(tmp_path / "work/panel"), "--force").out
    assert holdfast("strategy", "verify").code == 0
    assert holdfast("strategy", "remove", "panel", "--json").json == {"removed": "panel", "kind": "package"}
    assert holdfast("strategy", "remove", "panel").code == 3


def test_packages_of_the_user_and_those_that_scripts_find(holdfast, tmp_path, data, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/init.lua").write_text("return {meta = {version = '3'}, v = 7}")
    assert holdfast("strategy", "add", "mine", "--user").code == 0
    assert (data / "packages/mine/init.lua").exists()
    assert not (tmp_path / "holdfast.lock").exists()
    shown = holdfast("strategy", "show", "mine").out
    assert "Version: 3\nFrom: user\n" in shown
    assert holdfast("strategy", "show", "mine", "--text").out == (tmp_path / "mine/init.lua").read_text()
    assert strategy._known("mi") == ["mine"]
    said = holdfast("strategy", "remove", "mine")
    assert (said.code, "--user" in said.err) == (3, True)
    (tmp_path / "named/mine").mkdir(parents=True)
    (tmp_path / "named/mine/init.lua").write_text("return {v = 8}")
    monkeypatch.setenv("HOLDFAST_PACKAGES_PATH", str(tmp_path / "named"))
    assert holdfast("strategy", "show", "mine", "--json").json["hides"] == ["user"]
    assert holdfast("strategy", "remove", "mine", "--user").code == 0


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["show", "nobody"], 3, "PACKAGE_NOT_FOUND"),
        (["show", "../etc"], 1, "PACKAGE_INVALID"),
        (["show", "reflect", "--language", "python"], 2, "--language must be"),
        (["scaffold", "x", "--language", "python"], 2, "not 'python'"),
        (["add", "nothing"], 1, "PACKAGE_INVALID"),
        (["link", "nothing"], 1, "PACKAGE_INVALID"),
        (["add"], 2, "USAGE"),
        (["remove", "reflect"], 3, "PACKAGE_NOT_FOUND"),
    ],
)
def test_what_goes_wrong_has_a_code(holdfast, words, code, told):
    said = holdfast("strategy", *words)
    assert (said.code, told in said.err, said.out) == (code, True, "")
