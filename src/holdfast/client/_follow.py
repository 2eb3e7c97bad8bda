"""Following a stream of events across broken connections and restarted daemons, without I/O.

Whoever sends calls `request` for each connection, `feed` with what comes, and `lost` when it ends before the stream does.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
from pydantic import ValidationError

from holdfast.client._calls import Answer
from holdfast.client._errors import Unreachable
from holdfast.client._retry import BUSY, Backoff, retry_after
from holdfast.client._sse import Parser, TooLarge
from holdfast.client._wire import Settings, error_in, malformed, raise_for
from holdfast.client.models import Event

_REMEMBERED: Final = 10_000
_LIVES_S: Final = 1.0
"""A connection that has lasted so long, or has told something, was a good one."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What to follow. `silence_s` without even a heartbeat is a broken connection; `patience_s` without any is the end."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    silence_s: float = 45.0
    patience_s: float = 60.0


class Follower:
    """One stream, from its first event to its end, over however many connections."""

    def __init__(self, settings: Settings, stream: Stream) -> None:
        self._settings, self._stream = settings, stream
        self._parser = Parser()
        self._seen: OrderedDict[Any, int] = OrderedDict()
        self._backoff = Backoff(settings.retry_for_s)
        self._met = False
        self._asked_at = 0.0
        self.ended = False

    def request(self) -> dict[str, Any]:
        """What to send for the next connection: it goes on after the last event that was told whole."""
        self._parser.restart()
        self._asked_at = time.monotonic()
        last_id = self._parser.last_id
        headers: dict[str, Any] = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Cache-Control": "no-store"}
        if last_id:
            headers["Last-Event-ID"] = last_id.encode()
        return {
            "method": "GET",
            "url": self._stream.path,
            "params": {} if last_id else self._stream.query,
            "headers": headers,
            "timeout": self._settings.timeout(self._stream.silence_s),
        }

    def refused(self, answer: Answer) -> float:
        """The answer is no stream: how long to wait before asking again. Raises unless it may be one a moment later."""
        if answer.status == 200:
            raise malformed(answer, "this is not an event stream")
        wait = self._backoff.failed(retry_after(answer.headers)) if answer.status in BUSY else None
        if wait is None:
            raise error_in(answer)
        return wait

    def feed(self, chunk: bytes) -> list[Event]:
        """Events that were not told before."""
        fresh = []
        try:
            for message in self._parser.feed(chunk):
                if message.event == "end":
                    self.ended = True
                    break
                event = Event.model_validate_json(message.data).model_copy(update={"cursor": message.id or None})
                if self._is_new(event):
                    fresh.append(event)
        except (TooLarge, ValidationError) as error:
            raise malformed(Answer(200, {}, b""), str(error).partition("\n")[0]) from None
        if fresh or not self._met or time.monotonic() - self._asked_at >= _LIVES_S:
            self._met, self._backoff = True, Backoff(self._stream.patience_s)  # the next failure is a first one
        return fresh

    def _is_new(self, event: Event) -> bool:
        """Numbers of an execution's events only go up. Of more than so many executions, the oldest are forgotten."""
        if self._seen.get(event.execution_id, 0) >= event.seq:
            return False
        self._seen[event.execution_id] = event.seq
        self._seen.move_to_end(event.execution_id)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)
        return True

    def lost(self, error: httpx2.HTTPError | None = None) -> float:
        """The connection has ended, cleanly or not: how long to wait before the next one. Raises when it is time to give up."""
        wait = self._backoff.failed(self._parser.retry_s or 0.0)
        if wait is None:
            if error is not None:
                raise_for(error, self._settings)
            raise Unreachable(f"the daemon at {self._settings.server.url} ends the stream again and again")
        return wait


def is_stream(response: httpx2.Response) -> bool:
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    return response.status_code == 200 and kind == "text/event-stream"
