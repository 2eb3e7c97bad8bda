"""The REST API: parses, calls control, answers. It has no rules of its own.

`create_app` makes the ASGI application of an opened Holdfast, which a daemon serves.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.http._app import App as App
    from holdfast.http._app import create_app as create_app

_PLACES = {"App": "_app", "create_app": "_app"}

__all__ = ["App", "create_app"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        import importlib

        return getattr(importlib.import_module(f"holdfast.http.{_PLACES[name]}"), name)
    raise AttributeError(f"module 'holdfast.http' has no attribute {name!r}")
