"""Tokens: what each may do, what is kept of them, and who may change them at the same time."""

import json
import logging
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.daemon import DaemonError, Scope, TokenNotFound, Tokens, TokensUnusable
from holdfast.domain import InvalidValue, NameTaken


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_known_again_and_never_stored(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "data")
    token, secret = tokens.create("ci", ["run"])
    assert secret.startswith("hf_")
    assert tokens.verify(secret) == token
    kept = (tmp_path / "data" / "tokens.json").read_text()
    assert secret not in kept
    assert secret[3:] not in kept
    assert mode(tmp_path / "data") == 0o700
    assert mode(tmp_path / "data" / "tokens.json") == 0o600
    assert Tokens(tmp_path / "data").verify(secret) == token
    for wrong in ("", "hf_", secret[:-1], secret + "x", secret.upper(), "hf_\udcff", "Bearer " + secret):
        assert tokens.verify(wrong) is None


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        (["admin"], {"admin", "run", "answer", "read"}),
        (["run"], {"run", "read"}),
        (["answer"], {"answer", "read"}),
        (["read"], {"read"}),
        (["answer", "run"], {"run", "answer", "read"}),
    ],
)
def test_scopes(tmp_path: Path, scopes: list[str], allowed: set[str]) -> None:
    token, _ = Tokens(tmp_path).create("one", scopes)
    assert {scope for scope in Scope if token.allows(scope)} == allowed
    assert not token.allows("everything")


@pytest.mark.parametrize("name", ["", " a", "a\nb", "x" * 101])
def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValue):
        Tokens(tmp_path).create(name, ["read"])


@pytest.mark.parametrize("scopes", [[], ["write"], ["read", "root"], "rea"])
def test_scopes_that_are_none(tmp_path: Path, scopes: list[str]) -> None:
    with pytest.raises(InvalidValue):
        Tokens(tmp_path).create("one", scopes)


def test_a_token_ends_at_its_time(tmp_path: Path) -> None:
    now = 1_000.0
    tokens = Tokens(tmp_path, clock=lambda: now)
    _, secret = tokens.create("short", ["read"], expires_at=2_000)
    assert tokens.verify(secret) is not None
    assert tokens.usable
    now = 2_000.0
    assert tokens.verify(secret) is None
    assert not tokens.usable
    with pytest.raises(InvalidValue):
        tokens.create("past", ["read"], expires_at=1_500)
    tokens.create("short", ["read"])  # the name is free again
    assert [token.expires_at for token in tokens.list()] == [None]


def test_names_are_taken_once_and_tokens_go_by_name_or_id(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    one, secret = tokens.create("one", ["read"])
    two, other = tokens.create("two", ["read"])
    with pytest.raises(NameTaken):
        tokens.create("one", ["run"])
    assert [token.name for token in tokens.list()] == ["one", "two"]
    assert tokens.revoke(one.id) == one
    assert tokens.revoke("two") == two
    assert tokens.verify(secret) is None
    assert tokens.verify(other) is None
    with pytest.raises(TokenNotFound):
        tokens.revoke("one")


def test_what_another_process_does_is_seen(tmp_path: Path) -> None:
    daemon, command = Tokens(tmp_path), Tokens(tmp_path)
    assert not daemon.refresh()
    _, secret = command.create("ci", ["run"])
    assert daemon.verify(secret) is None
    assert daemon.refresh()
    assert daemon.verify(secret) is not None
    command.revoke("ci")
    assert daemon.refresh()
    assert not daemon.refresh()
    assert daemon.verify(secret) is None


def test_changes_at_the_same_time_are_not_lost(tmp_path: Path) -> None:
    many = (
        "import sys; from pathlib import Path; from holdfast.daemon import Tokens\n"
        "for i in range(10): Tokens(Path(sys.argv[1])).create(sys.argv[2] + str(i), ['read'])"
    )
    processes = [subprocess.Popen([sys.executable, "-c", many, str(tmp_path), name]) for name in "ab"]
    mine = Tokens(tmp_path)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda i: Tokens(tmp_path).create(f"c{i}", ["read"]), range(20)))
    assert [process.wait(60) for process in processes] == [0, 0]
    mine.refresh()
    assert len(mine.list()) == 40


def test_the_first_token_is_made_once(tmp_path: Path) -> None:
    path = Tokens(tmp_path).first()
    assert path == tmp_path / "token"
    assert mode(path) == 0o600
    secret = path.read_text().strip()
    token = Tokens(tmp_path).verify(secret)
    assert token is not None
    assert token.allows("admin")
    assert Tokens(tmp_path).first() == path
    assert path.read_text().strip() == secret
    Tokens(tmp_path).revoke("first")
    assert not path.exists()
    assert Tokens(tmp_path).first() is None, "who took it back does not want it again"
    assert Tokens(tmp_path).list() == []


def test_the_first_token_is_finished_after_a_crash(tmp_path: Path) -> None:
    path = Tokens(tmp_path).first()
    assert path is not None
    secret = path.read_text().strip()
    (tmp_path / "tokens.json").unlink()  # as if the process had ended between the two
    assert Tokens(tmp_path).first() == path
    assert Tokens(tmp_path).verify(secret) is not None


def test_a_token_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = Tokens(tmp_path).first()
    assert path is not None
    os.chmod(path, 0o644)
    (tmp_path / "tokens.json").unlink()
    with caplog.at_level(logging.WARNING, "holdfast.daemon"):
        Tokens(tmp_path).first()
    assert "can be read by others" in caplog.text
    assert path.read_text().strip() not in caplog.text


def test_tokens_that_others_may_have_written_are_not_trusted(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.create("one", ["read"])
    os.chmod(tmp_path / "tokens.json", 0o666)
    with pytest.raises(TokensUnusable):
        Tokens(tmp_path)
    with pytest.raises(TokensUnusable):
        tokens.refresh()
    assert tokens.verify(secret) is not None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"format": 3, "tokens": []}',
        '{"format": 1, "tokens": [{"id": "a"}]}',
        '{"format": 1, "tokens": 5}',
    ],
)
def test_a_damaged_file_changes_nothing_and_is_not_overwritten(tmp_path: Path, content: str) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.create("one", ["read"])
    (tmp_path / "tokens.json").write_text(content)
    for change in (tokens.reload, lambda: tokens.create("two", ["read"]), tokens.first, lambda: Tokens(tmp_path)):
        with pytest.raises(TokensUnusable):
            change()
    assert tokens.verify(secret) is not None
    assert (tmp_path / "tokens.json").read_text() == content


def test_a_row_with_another_scope_is_refused(tmp_path: Path) -> None:
    Tokens(tmp_path).create("one", ["read"])
    path = tmp_path / "tokens.json"
    content = json.loads(path.read_text())
    content["tokens"][0]["scopes"] = ["root"]
    path.write_text(json.dumps(content))
    with pytest.raises(TokensUnusable):
        Tokens(tmp_path)


def test_a_token_belongs_to_a_tenant(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    plain, _ = tokens.create("ops", ["admin"])
    assert plain.tenant == "default"
    assert plain.is_operator
    assert json.loads((tmp_path / "tokens.json").read_text())["format"] == 1, "readable by versions without tenants"
    token, secret = tokens.create("a", ["admin"], tenant="team-a")
    assert token.tenant == "team-a"
    assert not token.is_operator
    assert json.loads((tmp_path / "tokens.json").read_text())["format"] == 2, "refused by versions without tenants"
    assert Tokens(tmp_path).verify(secret) == token
    tokens.revoke("a")
    assert json.loads((tmp_path / "tokens.json").read_text())["format"] == 1


@pytest.mark.parametrize("tenant", ["", "*", "A", "a b", "../a", "a" * 65, "-a", "a\n", "é", None, 7])
def test_tenants_that_are_none(tmp_path: Path, tenant: str) -> None:
    with pytest.raises(InvalidValue):
        Tokens(tmp_path).create("one", ["read"], tenant=tenant)


def test_a_file_without_tenants_is_read(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    _, secret = tokens.create("old", ["run"])
    file = tmp_path / "tokens.json"
    content = json.loads(file.read_text())
    del content["tokens"][0]["tenant"]
    file.write_text(json.dumps(content))
    read = Tokens(tmp_path).verify(secret)
    assert read is not None
    assert read.tenant == "default"
    content["tokens"][0]["tenant"] = "no/tenant"
    file.write_text(json.dumps(content))
    with pytest.raises(TokensUnusable):
        Tokens(tmp_path)


def test_another_folder_in_the_place_of_the_data_directory(tmp_path: Path) -> None:
    """Its tokens are not trusted, and nothing is written there."""
    data, moved = tmp_path / "lab" / "data", tmp_path / "lab2"
    tokens = Tokens(data)
    _, good = tokens.create("good", ["read"])
    os.rename(tmp_path / "lab", moved)
    for is_there in (False, True):
        if is_there:
            _, evil = Tokens(data).create("evil", ["admin"])
            assert tokens.verify(evil) is None
        for act in (tokens.refresh, tokens.reload, lambda: tokens.revoke("good")):
            with pytest.raises(DaemonError) as raised:
                act()
            assert raised.value.code == "DIRECTORY_REPLACED"
        assert tokens.verify(good) is not None
    assert [token.name for token in Tokens(data).list()] == ["evil"]
    os.rename(tmp_path / "lab", tmp_path / "away")
    os.rename(moved, tmp_path / "lab")
    Tokens(data).revoke("good")
    assert tokens.refresh()
    assert tokens.verify(good) is None
