"""The client of a daemon: one typed method for each route, blocking and for event loops.

`Client` and `AsyncClient` are all that most programs need; what they give is in `holdfast.client.models`, what they raise here. Nothing
here knows how sessions run: it imports only `holdfast.domain`, and talks HTTP.
"""

from holdfast.client import models
from holdfast.client._calls import Page
from holdfast.client._client import AsyncClient, Client
from holdfast.client._errors import ApiError, MalformedResponse, NoAnswer, Unreachable
from holdfast.client._find import Server, find_server

__all__ = [
    "ApiError",
    "AsyncClient",
    "Client",
    "MalformedResponse",
    "NoAnswer",
    "Page",
    "Server",
    "Unreachable",
    "find_server",
    "models",
]
