"""The daemon with this API."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast import daemon
from holdfast.http._app import create_app

if TYPE_CHECKING:
    from holdfast.daemon import Loaded


def serve(loaded: "Loaded", *, ready: "Callable[[str], None] | None" = None) -> None:
    """Runs a daemon in this process until it is told to stop. `ready` is called with its URL when it serves."""
    daemon.serve(loaded, create_app, ready=ready)
