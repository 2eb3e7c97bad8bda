"""`holdfast serve`: the daemon in this process."""

from collections.abc import Mapping
from typing import Any

from holdfast.cli._exits import Exit
from holdfast.cli._terminal import print_json


def serve(flags: Mapping[str, Any], json: bool) -> int:
    """Runs the daemon until it is told to stop."""
    from holdfast.daemon import load_config
    from holdfast.http import serve as served

    given = dict(flags)
    if json and given.get("log_format") is None:
        given["log_format"] = "json"
    served(load_config(given), ready=_tell_as_json if json else _tell)
    return Exit.FINE


def _tell(url: str) -> None:
    """Where it is, for whoever started it with port 0."""
    print(f"Listening on {url}", flush=True)


def _tell_as_json(url: str) -> None:
    print_json({"url": url})
