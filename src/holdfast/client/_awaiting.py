"""Sending calls from an event loop."""

import asyncio
from collections.abc import AsyncIterator

import httpx2

from holdfast.client._calls import Answer, Call, Item, Page, Result, following
from holdfast.client._follow import Follower, Stream, is_stream
from holdfast.client._wire import Attempts, Reading, Settings
from holdfast.client.models import Event


class Awaiting:
    """For `AsyncClient`. It belongs to one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._http = httpx2.AsyncClient(**settings.for_httpx(limited=True))
        self._streams = httpx2.AsyncClient(**settings.for_httpx(limited=False))

    async def send(self, call: Call[Result]) -> Result:
        """The result of a call, after as many attempts as it takes."""
        attempts = Attempts(self._settings, call)
        while True:
            try:
                async with self._http.stream(**attempts.request()) as response:
                    answer = await _read(response, attempts.within_s)
            except httpx2.HTTPError as error:
                await asyncio.sleep(attempts.failed(error))
                continue
            wait = attempts.busy(answer)
            if wait is None:
                return attempts.result(answer)
            await asyncio.sleep(wait)

    async def pages(self, call: Call[Page[Item]]) -> AsyncIterator[Item]:
        """All of a list, a page at a time."""
        rest: Call[Page[Item]] | None = call
        while rest is not None:
            page = await self.send(rest)
            for item in page:
                yield item
            rest = following(rest, page)

    async def follow(self, stream: Stream) -> AsyncIterator[Event]:
        """Events as they happen, over as many connections as it takes."""
        follower = Follower(self._settings, stream)
        while True:
            try:
                async with self._streams.stream(**follower.request()) as response:
                    if is_stream(response):
                        async for chunk in response.aiter_bytes():
                            for event in follower.feed(chunk):
                                yield event
                            if follower.ended:
                                return
                        wait = follower.lost()
                    else:
                        wait = follower.refused(await _read(response, self._settings.timeout_s))
            except httpx2.HTTPError as error:
                wait = follower.lost(error)
            await asyncio.sleep(wait)

    async def close(self) -> None:
        await self._http.aclose()
        await self._streams.aclose()


async def _read(response: httpx2.Response, within_s: float | None) -> Answer:
    reading = Reading(within_s)
    async for piece in response.aiter_bytes():
        reading.take(piece)
    return reading.answer(response)
