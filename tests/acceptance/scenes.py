"""What acceptance tests share: scenes as plain functions, stores that are ready, the same scripts in both languages."""

import asyncio
import contextlib
import functools
import json
import multiprocessing
import textwrap
import traceback
import warnings
from collections.abc import Awaitable, Callable, Iterable
from functools import cache, partial
from multiprocessing.connection import Connection
from typing import Any

import pytest
import zstandard

from holdfast import Capability, Function, Holdfast, HoldfastError, Limits, Tool, Turn
from holdfast.domain import NameTaken
from holdfast.sandbox import LANGUAGES, Engine
from holdfast.store import Reply, Store, StoreUnavailable, open_store

SAY = {"javascript": "await ask({!r})", "lua": "alc.ask({!r})"}


def scene(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that is a coroutine, run to its end or for a minute."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(60):
                await test(*args, **kwargs)

        asyncio.run(bounded())

    return run


@cache
def _blobs() -> dict[bytes, Callable[[], bytes]]:
    """What every store needs of the guests, packed once and when it is first missing: it is the slowest part of a new store."""
    packed = {}
    with Engine() as engine:
        for language in LANGUAGES:
            guest = engine.guest(language)
            template = guest.template()
            for digest, data in ((guest.digest, guest.wasm), (template.digest, template.content)):
                packed[digest] = cache(partial(zstandard.compress, data, 1))
    return packed


def opened(address: str | Store, **options: Any) -> Holdfast:
    """Holdfast on a store in which the guests are already."""
    store = open_store(address) if isinstance(address, str) else address
    for digest, packed in _blobs().items():
        if store.get_blob(digest) is None:
            store.put_blob(digest, packed())
    return Holdfast.open(store, **options)


async def template(hf: Holdfast, language: str = "javascript", name: str | None = None, **options: Any) -> str:
    """A template of this name, made if it is not there."""
    name = name or language
    with contextlib.suppress(NameTaken):
        await hf.templates.create(name, language=language, **options)
    return name


async def session(hf: Holdfast, language: str = "javascript", **options: Any) -> Any:
    """The id of a new session of a plain template, or of one of its own if options are given."""
    name = await template(hf, language, f"{language} {sorted(options)}" if options else None, **options)
    return (await hf.sessions.create(name)).id


def grants(functions: Iterable[Function] = (), tools: Iterable[Tool] = ()) -> list[Capability]:
    """The capabilities by which a template may use all of these."""
    return [Capability("function", function.name) for function in functions] + [Capability("tool", tool.name) for tool in tools]


def value(turn: Turn) -> Any:
    """The value of an execution that has ended well."""
    assert turn.execution.status == "ok", turn.execution.error
    assert turn.execution.result is not None
    return turn.execution.result.get("json")


async def evaluate(hf: Holdfast, session_id: Any, source: str) -> Any:
    return value(await hf.executions.run(session_id, source))


def refused(code: str) -> Any:
    """A call that raises the error with this code."""
    return _Refused(code)


class _Refused:
    def __init__(self, code: str) -> None:
        self.code = code
        self.error: HoldfastError | None = None

    def __enter__(self) -> "_Refused":
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> bool:
        assert error is not None, f"{self.code} was not raised"
        if not isinstance(error, HoldfastError):
            return False
        assert error.code == self.code, f"{error.code}: {error}"
        self.error = error
        return True


class Clock:
    """A clock that is set by hand, in milliseconds."""

    def __init__(self, now: int = 1_800_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


async def until(condition: Callable[[], Any], seconds: float = 10) -> Any:
    """Waits for something that another thread or task does."""
    async with asyncio.timeout(seconds):
        while not (found := condition()):
            await asyncio.sleep(0.005)
        return found


async def eventually(look: Callable[[], Awaitable[Any]], seconds: float = 10) -> Any:
    """Waits until a look finds something."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):
            await asyncio.sleep(0.01)
        return found


_PROGRAM = """
import asyncio, json, os, sys, time
from holdfast import *
from tests.acceptance.scenes import *

async def main(address, given):
{body}
"""

# They come from a process that has imported all of this and does nothing else: to import it again for each takes longer than most tests.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.acceptance.scenes"])


def elsewhere(address: str, body: str, given: Any = None, *, dies: bool = False) -> Any:
    """Runs an async body in another process, which may be made to die in the middle. Gives what it returns."""
    program = _PROGRAM.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    ours, theirs = _PROCESSES.Pipe(duplex=False)
    process = _PROCESSES.Process(target=_act, args=(program, address, json.dumps(given, default=str), theirs))
    with ours:
        with theirs:
            process.start()
        try:
            well, said = ours.recv() if ours.poll(60) else (False, "it takes too long")
        except EOFError:
            well, said = False, "it has died"
    process.join(10)
    code = process.exitcode
    if code is None:
        process.kill()
        process.join()
    process.close()
    if dies:
        assert code in (9, -9), said  # by itself, or by SIGKILL
        return None
    assert well, said
    assert code == 0, code
    return json.loads(said)


def _act(program: str, address: str, given: str, say: Connection) -> None:
    """What another process does."""
    warnings.simplefilter("error")
    names: dict[str, Any] = {}
    try:
        exec(program, names)
        say.send((True, json.dumps(asyncio.run(names["main"](address, json.loads(given))))))
    except BaseException:  # noqa: BLE001 - the test shall hear of it
        say.send((False, traceback.format_exc()))


# Languages and stores have little to do with each other: each of both is met, not all pairs.
both = pytest.mark.parametrize(("language", "address"), [("javascript", "memory"), ("lua", "sqlite")], indirect=["address"])
all_stores = pytest.mark.parametrize(
    ("language", "address"), [("javascript", "sqlite"), ("lua", "postgres"), ("javascript", "memory")], indirect=["address"]
)
durable_stores = pytest.mark.parametrize(
    ("language", "address"), [("javascript", "sqlite"), ("lua", "postgres")], indirect=["address"]
)

__all__ = [
    "SAY",
    "Clock",
    "Limits",
    "all_stores",
    "both",
    "durable_stores",
    "elsewhere",
    "evaluate",
    "eventually",
    "grants",
    "open_store",
    "opened",
    "refused",
    "scene",
    "session",
    "template",
    "until",
    "value",
]


def dies_before_it_replies(monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    """A store that fails when the reply to the request with key `k` is put, as if the process had ended there."""
    put = store.put_reply

    def dies(reply: Reply) -> None:
        if reply.key == "k":
            raise StoreUnavailable
        put(reply)

    monkeypatch.setattr(store, "put_reply", dies)
