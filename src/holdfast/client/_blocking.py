"""Sending calls and waiting for them."""

import time
from collections.abc import Iterator

import httpx2

from holdfast.client._calls import Answer, Call, Item, Page, Result, following
from holdfast.client._follow import Follower, Stream, is_stream
from holdfast.client._wire import Attempts, Reading, Settings
from holdfast.client.models import Event


class Blocking:
    """For `Client`. May be used by several threads at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._http = httpx2.Client(**settings.for_httpx(limited=True))
        self._streams = httpx2.Client(**settings.for_httpx(limited=False))

    def send(self, call: Call[Result]) -> Result:
        """The result of a call, after as many attempts as it takes."""
        attempts = Attempts(self._settings, call)
        while True:
            try:
                with self._http.stream(**attempts.request()) as response:
                    answer = _read(response, attempts.within_s)
            except httpx2.HTTPError as error:
                time.sleep(attempts.failed(error))
                continue
            wait = attempts.busy(answer)
            if wait is None:
                return attempts.result(answer)
            time.sleep(wait)

    def pages(self, call: Call[Page[Item]]) -> Iterator[Item]:
        """All of a list, a page at a time."""
        rest: Call[Page[Item]] | None = call
        while rest is not None:
            page = self.send(rest)
            yield from page
            rest = following(rest, page)

    def follow(self, stream: Stream) -> Iterator[Event]:
        """Events as they happen, over as many connections as it takes."""
        follower = Follower(self._settings, stream)
        while True:
            try:
                with self._streams.stream(**follower.request()) as response:
                    if is_stream(response):
                        for chunk in response.iter_bytes():
                            yield from follower.feed(chunk)
                            if follower.ended:
                                return
                        wait = follower.lost()
                    else:
                        wait = follower.refused(_read(response, self._settings.timeout_s))
            except httpx2.HTTPError as error:
                wait = follower.lost(error)
            time.sleep(wait)

    def close(self) -> None:
        self._http.close()
        self._streams.close()


def _read(response: httpx2.Response, within_s: float | None) -> Answer:
    reading = Reading(within_s)
    for piece in response.iter_bytes():
        reading.take(piece)
    return reading.answer(response)
