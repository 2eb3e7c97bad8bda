"""The configuration: later sources win, what makes no sense is refused by name and source, and the documentation has the same table."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.daemon import SETTINGS, Config, ConfigInvalid, load_config
from holdfast.daemon.config import markdown_table
from holdfast.domain import Retention

PROJECT = Path(__file__).parents[2]


@pytest.fixture
def toml(tmp_path: Path) -> Any:
    def write(text: str) -> dict[str, str]:
        path = tmp_path / "config.toml"
        path.write_text(text)
        return {"HOLDFAST_CONFIG": str(path)}

    return write


@pytest.fixture(autouse=True)
def nobody_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that a configuration of whoever runs the tests does not matter."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_defaults() -> None:
    config = load_config(environ={}).config
    assert config.listen == "127.0.0.1:3210"
    assert config.address == ("127.0.0.1", 3210)
    assert (config.header_timeout_s, config.body_timeout_s, config.idle_timeout_s, config.shutdown_grace_s) == (5, 15, 60, 10)
    assert (config.body_limit_kb, config.resident, config.lease_ms) == (4096, 128, 10_000)
    assert config.data_dir.is_absolute()
    assert config.store == f"sqlite:///{config.data_dir}/holdfast.db"
    assert config.libraries_dir == config.data_dir / "libraries"
    assert config.token_file == config.data_dir / "token"
    assert config.retention == Retention()
    assert set(load_config(environ={}).origins.values()) == {"default"}


def test_what_follows_from_the_data_directory_follows_it(tmp_path: Path) -> None:
    config = load_config({"data_dir": str(tmp_path / "here")}, {"HOLDFAST_STORE": "memory:"}).config
    assert config.libraries_dir == tmp_path / "here" / "libraries"
    assert config.store == "memory:"


def test_later_sources_win_and_each_value_says_where_it_is_from(toml: Any) -> None:
    environ = toml('log_level = "debug"\nresident = 5\nlease_ms = 2000\nallowed_hosts = ["a.example"]\n')
    environ |= {
        "HOLDFAST_RESIDENT": "6",
        "HOLDFAST_LEASE_MS": "3000",
        "HOLDFAST_LISTEN": "",
        "HOLDFAST_SERVER_URL": "for others",
    }
    loaded = load_config({"lease_ms": 4000, "rate_per_s": "2.5", "listen": None}, environ)
    config, origins = loaded.config, loaded.origins
    assert (config.log_level, config.resident, config.lease_ms, config.rate_per_s) == ("debug", 6, 4000, 2.5)
    assert config.listen == "127.0.0.1:3210"
    assert config.allowed_hosts == ("a.example",)
    assert origins["log_level"] == f"file {environ['HOLDFAST_CONFIG']}"
    assert origins["resident"] == "environment HOLDFAST_RESIDENT"
    assert origins["lease_ms"] == "flag --lease-ms"
    assert origins["listen"] == "default"


def test_the_file_of_a_flag_wins_over_that_of_the_environment(tmp_path: Path, toml: Any) -> None:
    environ = toml("resident = 5")
    other = tmp_path / "other.toml"
    other.write_text("resident = 7")
    assert load_config({"config": other}, environ).config.resident == 7


def test_the_file_of_the_config_directory_is_found_and_need_not_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_config(environ={}).config.resident == 128
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "config.toml").write_text("resident = 9")
    assert load_config(environ={}).config.resident == 9


def test_reading_again_sees_the_file_and_keeps_the_flags(toml: Any) -> None:
    environ = toml('log_level = "info"\nresident = 1')
    loaded = load_config({"resident": 2}, environ)
    toml('log_level = "error"\nresident = 3')
    again = loaded.again().config
    assert (again.log_level, again.resident) == ("error", 2)


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("[::1]:3210", ("::1", 3210)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("localhost:0", ("localhost", 0)),
        ("my-host.example:65535", ("my-host.example", 65535)),
    ],
)
def test_addresses(listen: str, address: tuple[str, int]) -> None:
    assert Config(listen=listen).address == address


@pytest.mark.parametrize(
    "listen",
    [
        "",
        "3210",
        ":3210",
        "host",
        "host:",
        "host:65536",
        "host:-1",
        "::1:3210",
        "[::1]",
        "[nonsense]:1",
        "*:80",
        "a b:1",
        "h:٣",
    ],
)
def test_addresses_that_are_none(listen: str) -> None:
    with pytest.raises(ConfigInvalid, match="listen must"):
        Config(listen=listen)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("resident = -1", "resident must be a whole number from 0"),
        ('resident = "5"', "resident must be a whole number"),
        ("resident = true", "resident must be a whole number"),
        ("resident = 1.5", "resident must be a whole number"),
        ("lease_ms = 0", "lease_ms must be"),
        ("access_log = 1", "access_log must be true or false"),
        ('log_level = "loud"', "log_level must be one of debug, info, warning, error"),
        ("header_timeout_s = nan", "header_timeout_s must be a number"),
        ("header_timeout_s = 0", "header_timeout_s must be a number from 0.05"),
        ('allowed_hosts = "a"', "allowed_hosts must be a list"),
        ('allowed_hosts = ["http://a"]', "allowed_hosts must have names of hosts"),
        ('allowed_origins = ["*"]', "allowed_origins must have origins"),
        ('allowed_origins = ["https://a/path"]', "allowed_origins must have origins"),
        ('store = "mysql://x"', "store must be memory:, sqlite:"),
        ("retention_idle_ms = -5", "retention_idle_ms must be a whole number, 0 or more, or none"),
        ('data_dir = ""', "data_dir must be text"),
    ],
)
def test_values_that_make_no_sense_name_the_field_and_the_file(toml: Any, line: str, problem: str) -> None:
    environ = toml(line)
    with pytest.raises(ConfigInvalid, match="must") as caught:
        load_config(environ=environ)
    assert problem in str(caught.value)
    assert f"(from file {environ['HOLDFAST_CONFIG']})" in str(caught.value)
    assert caught.value.code == "CONFIG_INVALID"


@pytest.mark.parametrize(
    ("flags", "environ", "source"),
    [
        ({}, {"HOLDFAST_CONCURRENCY": "many"}, "environment HOLDFAST_CONCURRENCY"),
        ({}, {"HOLDFAST_ACCESS_LOG": "perhaps"}, "environment HOLDFAST_ACCESS_LOG"),
        ({}, {"HOLDFAST_HEARTBEAT_S": "inf"}, "environment HOLDFAST_HEARTBEAT_S"),
        ({"body_limit_kb": 0}, {}, "flag --body-limit-kb"),
        ({"retention_idle_ms": "soon"}, {}, "flag --retention-idle-ms"),
    ],
)
def test_other_sources_are_named_too(flags: dict[str, Any], environ: dict[str, str], source: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        load_config(flags, environ)
    assert f"(from {source})" in str(caught.value)


def test_text_of_the_environment(toml: Any) -> None:
    environ = toml("retention_idle_ms = 5")
    environ |= {
        "HOLDFAST_ALLOWED_HOSTS": "A.example, [::1],b.example,",
        "HOLDFAST_ACCESS_LOG": "Off",
        "HOLDFAST_RETENTION_IDLE_MS": "none",
        "HOLDFAST_RETENTION_CHECKPOINTS": "1_000",
    }
    config = load_config(environ=environ).config
    assert config.allowed_hosts == ("a.example", "::1", "b.example")
    assert config.access_log is False
    assert config.retention == Retention(checkpoints=1000)


def test_unknown_keys_are_errors_with_a_hint(toml: Any) -> None:
    with pytest.raises(ConfigInvalid, match=r"no setting 'residents' .* did you mean resident"):
        load_config(environ=toml("residents = 4"))
    with pytest.raises(ConfigInvalid, match="no setting 'retention'"):
        load_config(environ=toml("[retention]\nidle_ms = 4"))
    with pytest.raises(ConfigInvalid, match="no setting 'colour'"):
        load_config({"colour": "red"}, {})


def test_files_that_cannot_be_read(tmp_path: Path, toml: Any) -> None:
    with pytest.raises(ConfigInvalid, match="there is no configuration file"):
        load_config({"config": str(tmp_path / "absent.toml")}, {})
    with pytest.raises(ConfigInvalid, match="is not TOML"):
        load_config(environ=toml("resident: 5"))
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_config({"config": tmp_path}, {})
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigInvalid, match="is not TOML"):
        load_config({"config": tmp_path / "bytes.toml"}, {})


def test_a_password_is_not_shown_nor_told_in_errors() -> None:
    loaded = load_config({"store": "postgresql://ada:l0ve@l@ce@db:5432/work?sslmode=require"}, {})
    rows = {row.name: row for row in loaded.rows()}
    assert rows["store"].value == "postgresql://ada:***@db:5432/work?sslmode=require"
    assert loaded.config.store.startswith("postgresql://ada:l0ve@l@ce")
    assert [row.name for row in loaded.rows()] == [setting.name for setting in SETTINGS]
    assert rows["store"].origin == "flag --store"
    with pytest.raises(ConfigInvalid) as caught:
        load_config({"store": "mysql://ada:l0ve@db"}, {})
    assert "l0ve" not in str(caught.value)


def test_what_is_not_from_a_loader_is_checked_as_well() -> None:
    with pytest.raises(ConfigInvalid, match="concurrency must"):
        Config(concurrency=0)


def test_the_documentation_has_the_same_table() -> None:
    assert markdown_table() in (PROJECT / "docs" / "daemon.md").read_text()
