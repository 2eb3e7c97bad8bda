"""The configuration: one table, and everything that follows from it.

`Config` is the table. From its fields come the keys of the TOML file, the variables of the environment, the flags, what `holdfast config
show` prints, and the table in docs/daemon.md. Later sources win: defaults, the file, the environment, flags.
"""

import difflib
import json
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.daemon import _kinds
from holdfast.daemon._errors import ConfigInvalid
from holdfast.daemon._kinds import Kind
from holdfast.daemon._masking import masked
from holdfast.domain import Quotas, Retention

if TYPE_CHECKING:
    from holdfast.runtime import Settings

_DAY_S: Final = 86_400
_LONGEST_MS: Final = 10 * 365 * _DAY_S * 1000
_LARGEST_FILE: Final = 1 << 20


def _data_dir() -> Path:
    import platformdirs

    return platformdirs.user_data_path("holdfast", appauthor=False)


def _config_file() -> Path:
    import platformdirs

    return platformdirs.user_config_path("holdfast", appauthor=False) / "config.toml"


def _is(kind: Kind, default: Any, description: str, shown: str | None = None) -> Any:
    """A row of the table. A default that depends on the machine is a function, and `shown` describes it."""
    metadata = {"kind": kind, "description": description, "shown": shown}
    return field(default_factory=default, metadata=metadata) if callable(default) else field(default=default, metadata=metadata)


_SECONDS: Final = _kinds.number(0.05, _DAY_S)
_MAYBE: Final = _kinds.whole_or_none(0)


@dataclass(frozen=True, kw_only=True)
class Config:
    """What a daemon can be told. Raises ConfigInvalid for what makes no sense."""

    listen: str = _is(_kinds.ADDRESS, "127.0.0.1:3210", "Where to listen; port 0 takes a free one")
    data_dir: Path = _is(_kinds.PATH, _data_dir, "The folder of everything that the daemon keeps", "by platform")  # noqa: RUF009
    store: str = _is(_kinds.STORE, None, "Where sessions are kept", "sqlite:///<data_dir>/holdfast.db")
    libraries_dir: Path = _is(_kinds.PATH, None, "The folder of libraries that templates may name", "<data_dir>/libraries")  # noqa: RUF009
    project_dir: Path | None = _is(_kinds.PATH_OR_NONE, None, "The project whose strategies are used, beside the user's")  # noqa: RUF009
    token_file: Path = _is(_kinds.PATH, None, "Where the first token is written, and looked for by the CLI", "<data_dir>/token")  # noqa: RUF009
    worktree_roots: tuple[str, ...] = _is(_kinds.PATHS, (), "Folders below which worktrees must lie that requests name")
    tenant_modules: tuple[str, ...] = _is(
        _kinds.WORDS,
        ("card", "clock", "crypto", "fs", "random", "state"),
        "Native modules that administrators of other tenants than the default may grant",
    )
    allowed_hosts: tuple[str, ...] = _is(
        _kinds.HOSTS, (), "More host names that requests may name, beside those of the loopback"
    )
    allowed_origins: tuple[str, ...] = _is(_kinds.ORIGINS, (), "Sites whose pages may call the daemon")
    body_limit_kb: int = _is(_kinds.whole(1, 1 << 20), 4096, "The largest body of a request")
    header_timeout_s: float = _is(_SECONDS, 5.0, "How long the headers of a request may take to arrive")
    body_timeout_s: float = _is(_SECONDS, 15.0, "How long the body of a request may take to arrive")
    idle_timeout_s: float = _is(_SECONDS, 60.0, "How long a connection may do nothing, or not read what it is sent")
    shutdown_grace_s: float = _is(_kinds.number(0, _DAY_S), 10.0, "How long requests may take to end when the daemon stops")
    heartbeat_s: float = _is(_SECONDS, 15.0, "How often an event stream says that it lives")
    mcp_sessions: int = _is(_kinds.whole(1, 100_000), 64, "MCP sessions at a time for each token")
    mcp_state_s: float = _is(
        _kinds.number(1, 366 * _DAY_S),
        3600.0,
        "How long an MCP client may take to answer what it is asked in the middle of a call",
    )
    rate_per_s: float = _is(
        _kinds.number(0, 1e6), 0.0, "Requests a second for each token, or each address without one; 0 is no limit"
    )
    concurrency: int = _is(_kinds.whole(1, 100_000), 256, "Requests at a time for each token")
    inflight_mb: int = _is(
        _kinds.whole(1, 1 << 20), 64, "Megabytes of bodies and unread answers that the requests of each token hold in memory"
    )
    streams: int = _is(_kinds.whole(1, 100_000), 64, "Event streams at a time for each token")
    connections: int = _is(_kinds.whole(1, 100_000), 4096, "Connections at a time; more are told to come back later")
    resident: int = _is(_kinds.whole(0, 1 << 20), 128, "Sessions that stay in memory while nothing runs in them")
    resident_mb: int = _is(
        _kinds.whole(0, 1 << 20), 512, "Megabytes that these sessions hold together; those that were used last stay"
    )
    lease_ms: int = _is(
        _kinds.whole(100, _DAY_S * 1000), 10_000, "After how long without a sign of life a daemon is taken for dead"
    )
    busy_wait_ms: int = _is(
        _kinds.whole(0, _LONGEST_MS), 30_000, "How long a call waits for a session that another daemon runs at the moment"
    )
    usage_limits: dict[str, int] = _is(  # noqa: RUF009
        _kinds.USAGE, dict, "Limits over time that no template exceeds, such as max_cpu_s_per_hour", ""
    )
    limits_ceiling: dict[str, int] = _is(  # noqa: RUF009
        _kinds.CEILING,
        _kinds.ceiling,
        "The highest values of any limit of a template; what is not named is as by default, and 0 is no ceiling",
        "mem_mb 1024, max_output_kb 65536",
    )
    quotas: dict[str, Any] = _is(  # noqa: RUF009
        _kinds.QUOTAS, dict, "What tenants and tokens may use: tables tenant, token, tenants.NAME and tokens.ID", ""
    )
    retention_checkpoints: int | None = _is(_MAYBE, None, "Newest checkpoints that each session keeps; none keeps all")
    retention_checkpoints_ms: int | None = _is(_MAYBE, None, "Age at which other checkpoints may go")
    retention_idle_ms: int | None = _is(_MAYBE, None, "After how long without use a session is closed")
    retention_closed_ms: int | None = _is(_MAYBE, None, "How long after its closing a session is deleted")
    retention_replies_ms: int = _is(_kinds.whole(0), _DAY_S * 1000, "How long replies to idempotency keys are kept")
    retention_versions: int | None = _is(_MAYBE, None, "Newest versions that each template keeps; none keeps all")
    retention_versions_ms: int | None = _is(_MAYBE, None, "Age at which other versions may go that no session is made of")
    retention_audit_ms: int | None = _is(
        _MAYBE, 90 * _DAY_S * 1000, "How long entries of the audit log are kept; none keeps all"
    )
    log_level: str = _is(_kinds.choice("debug", "info", "warning", "error"), "info", "What is logged; read again on SIGHUP")
    log_format: str = _is(_kinds.choice("text", "json"), "text", "Lines for people, or JSON lines")
    access_log: bool = _is(_kinds.SWITCH, True, "Whether each request is logged")

    def __post_init__(self) -> None:
        for setting in SETTINGS:
            value = getattr(self, setting.name)
            if value is None and setting.name in _UNDER_DATA_DIR:
                value = _UNDER_DATA_DIR[setting.name](self.data_dir)  # which comes first in the table
            try:
                object.__setattr__(self, setting.name, setting.kind.read(value))
            except ValueError as error:
                raise ConfigInvalid(f"{setting.name} {error}") from None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return _kinds.split_address(self.listen)

    @property
    def retention(self) -> Retention:
        """How long things are kept."""
        return Retention(
            checkpoints=self.retention_checkpoints,
            checkpoints_ms=self.retention_checkpoints_ms,
            idle_ms=self.retention_idle_ms,
            closed_ms=self.retention_closed_ms,
            replies_ms=self.retention_replies_ms,
            versions=self.retention_versions,
            versions_ms=self.retention_versions_ms,
            audit_ms=self.retention_audit_ms,
        )

    @property
    def settings(self) -> "Settings":
        """How the runtime behaves."""
        from holdfast.runtime import Settings

        grace_ms = min(Settings().grace_ms, 1000 * self.shutdown_grace_s)
        return Settings(
            resident=self.resident,
            resident_mb=self.resident_mb,
            lease_ms=self.lease_ms,
            grace_ms=grace_ms,
            busy_wait_ms=self.busy_wait_ms,
            node_file=self.data_dir / "node",
            usage_limits=self.usage_limits,
            limits_ceiling=self.limits_ceiling,
            quotas=Quotas.parse(self.quotas),
        )


_UNDER_DATA_DIR: Final[dict[str, Callable[[Path], Any]]] = {
    "store": lambda folder: f"sqlite:///{folder / 'holdfast.db'}",
    "libraries_dir": lambda folder: folder / "libraries",
    "token_file": lambda folder: folder / "token",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    kind: Kind
    default: str
    description: str

    @property
    def variable(self) -> str:
        """Its name in the environment."""
        return f"HOLDFAST_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """Its name on a command line."""
        return f"--{self.name.replace('_', '-')}"


def _setting(row: "Field[Any]") -> Setting:
    shown = row.metadata["shown"]
    default = shown if shown is not None else shown_value(None if row.default is MISSING else row.default)
    return Setting(row.name, row.metadata["kind"], default, row.metadata["description"])


def shown_value(value: Any) -> str:
    """A value as people read it, without secrets.

    >>> shown_value(("a", "b")), shown_value(True), shown_value(None), shown_value(5.0)
    ('a, b', 'true', 'none', '5')
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, dict):
        return json.dumps(value) if value else "none"
    return f"{value:g}" if isinstance(value, float) else masked(str(value))


SETTINGS: Final = tuple(_setting(row) for row in fields(Config))
_BY_NAME: Final = {setting.name: setting for setting in SETTINGS}


@dataclass(frozen=True, slots=True)
class Row:
    """A value as `holdfast config show` prints it."""

    name: str
    value: str
    origin: str
    variable: str
    flag: str
    description: str


@dataclass(frozen=True)
class Loaded:
    """The effective configuration, and where each value came from: `default`, `file ...`, `environment HOLDFAST_...` or `flag --...`."""

    config: Config
    origins: dict[str, str]
    flags: Mapping[str, Any]
    environ: Mapping[str, str] = field(repr=False)

    @property
    def files(self) -> list[Path]:
        """The configuration file, if any value came from one. There may be a password in it."""
        return sorted({Path(origin.removeprefix("file ")) for origin in self.origins.values() if origin.startswith("file ")})

    def rows(self) -> Iterator[Row]:
        """The table with its present values. Secrets are hidden."""
        for one in SETTINGS:
            value = shown_value(getattr(self.config, one.name))
            yield Row(one.name, value, self.origins[one.name], one.variable, one.flag, one.description)

    def again(self) -> "Loaded":
        """Reads file and environment again, with the flags that there were."""
        return load_config(self.flags, self.environ)


def load_config(flags: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Loaded:
    """The configuration from all its sources. `flags` has those that were given, by their names in the table, and `config`: a file.

    A flag that is None was not given, and a variable that is empty is not set. Raises ConfigInvalid, which names the value's source.
    """
    flags, environ = dict(flags or {}), os.environ if environ is None else environ
    named = flags.get("config")
    values: dict[str, Any] = {}
    origins = dict.fromkeys(_BY_NAME, "default")
    for name, origin, read in (
        *_of_file(named if named is not None else environ.get("HOLDFAST_CONFIG") or None),
        *_of_environment(environ),
        *_of_flags({name: value for name, value in flags.items() if name != "config"}),
    ):
        try:
            values[name] = read()
        except ValueError as error:
            raise ConfigInvalid(f"{name} {error} (from {origin})") from None
        origins[name] = origin
    return Loaded(Config(**values), origins, flags, environ)


_Given = Iterator[tuple[str, str, Callable[[], Any]]]


def _of_file(named: Any) -> _Given:
    try:
        path = Path(named).expanduser() if named is not None else _config_file()
    except RuntimeError:
        raise ConfigInvalid("the configuration file cannot be found: there is no such home directory") from None
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            raise ConfigInvalid(f"{path} is too large for a configuration")
        found = tomllib.loads(text.decode())
    except FileNotFoundError:
        if named is not None:
            raise ConfigInvalid(f"there is no configuration file {path}") from None
        return
    except OSError as error:
        raise ConfigInvalid(f"the configuration file {path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ConfigInvalid(f"{path} is not TOML: it is nested too deep") from None
    except ValueError as error:  # not TOML, or not UTF-8
        raise ConfigInvalid(f"{path} is not TOML: {error}") from None
    for name, value in found.items():
        setting = _known(name, f"file {path}")
        yield name, f"file {path}", partial(setting.kind.read, value)


def _of_environment(environ: Mapping[str, str]) -> _Given:
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if text:
            yield setting.name, f"environment {setting.variable}", partial(setting.kind.parse, text)


def _of_flags(flags: Mapping[str, Any]) -> _Given:
    for name, value in flags.items():
        if value is not None:
            kind = _known(name, "flags").kind
            read = kind.parse if isinstance(value, str) else kind.read
            yield name, f"flag {_BY_NAME[name].flag}", partial(read, value)


def _known(name: str, origin: str) -> Setting:
    setting = _BY_NAME.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, _BY_NAME, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ConfigInvalid(f"there is no setting {name[:60]!r} ({origin}){hint}")
    return setting


def markdown_table() -> str:
    """The table as docs/daemon.md has it."""
    lines = ["| setting | kind | default | variable | flag | what it is |", "|---|---|---|---|---|---|"]
    for one in SETTINGS:
        kind = one.kind.label.replace("|", "\\|")
        default = f"`{one.default}`" if one.default else ""
        lines.append(f"| `{one.name}` | {kind} | {default} | `{one.variable}` | `{one.flag}` | {one.description} |")
    return "\n".join(lines) + "\n"
