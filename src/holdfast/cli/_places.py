"""Where things are on this machine: the data directory, and what `holdfast run` keeps in it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.cli._exits import CommandFailed

if TYPE_CHECKING:
    from holdfast.strategies import PackagePath

_LOCAL: Final = "local.db"


def data_dir() -> Path:
    """The data directory: HOLDFAST_DATA_DIR, else what the config file says, else what is usual on this platform."""
    named = os.environ.get("HOLDFAST_DATA_DIR") or _configured()
    if named:
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("holdfast", appauthor=False)


def config_file() -> Path:
    """The config file, there or not: HOLDFAST_CONFIG, else what is usual on this platform."""
    named = os.environ.get("HOLDFAST_CONFIG")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("holdfast", appauthor=False) / "config.toml"


def _configured() -> str | None:
    """The data directory in the config file. One that was named and cannot be read is an error: sessions would be somewhere else."""
    file = config_file()
    if not os.environ.get("HOLDFAST_CONFIG") and not file.exists():
        return None
    import tomllib

    try:
        found = tomllib.loads(file.read_text("utf-8")).get("data_dir")
    except OSError as error:
        raise CommandFailed(f"the config file {file} cannot be read: {error.strerror}", "CONFIG_INVALID") from None
    except ValueError as error:
        raise CommandFailed(f"the config file {file} is not TOML: {error}", "CONFIG_INVALID") from None
    return found if isinstance(found, str) else None


def made_data_dir() -> Path:
    """The data directory, made with nobody else allowed in."""
    folder = data_dir()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailed(
            f"the data directory {folder} cannot be made: {error.strerror}", "DATA_DIR", "set HOLDFAST_DATA_DIR"
        ) from None
    return folder


def local_store(given: str | None) -> str:
    """The address of the store of `run`, `resume` and `repl`: as given, or a file in the data directory.

    Not the daemon's own: a script that is tried out at the terminal is nobody else's business, and needs no daemon to stop for it.
    """
    named = given or os.environ.get("HOLDFAST_LOCAL_STORE")
    if named:
        return named if ":" in named else f"sqlite:///{named}"
    return f"sqlite:///{made_data_dir() / _LOCAL}"


def project_dir() -> Path | None:
    """The project that the working directory is in, or the one that HOLDFAST_PROJECT_DIR names."""
    from holdfast.strategies import find_project

    named = os.environ.get("HOLDFAST_PROJECT_DIR")
    return Path(named).expanduser() if named else find_project()


def package_path() -> "PackagePath":
    """Where the strategies of `run`, `repl` and `strategy` are found."""
    from holdfast.strategies import PackagePath

    return PackagePath.default(project_dir(), data_dir())
