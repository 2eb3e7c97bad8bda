"""`holdfast repl`: what is typed runs in a session, here or at the daemon."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.cli._attending import Attended, attend, document
from holdfast.cli._dots import Dots, is_dot
from holdfast.cli._exits import Exit, tell, usage
from holdfast.cli._host import FINAL, Host, Json
from holdfast.cli._local import opened
from holdfast.cli._places import local_store, made_data_dir
from holdfast.cli._remote import Globals
from holdfast.cli._showing import show_end
from holdfast.cli._terminal import harmless, print_json, say
from holdfast.cli._typing import Piped, Source, Stopped, Typed
from holdfast.domain import HoldfastError, SessionNotFound

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_HISTORY: Final = "history"


def repl(globals_: Globals, session: str | None, template: str | None, lang: str | None, store: str | None, json: bool) -> int:
    """Talks until there is nothing more to say."""
    if session is not None and (template is not None or lang is not None):
        raise usage("a session has its template and its language: leave out --template and --lang")

    async def talk() -> int:
        async with _place(globals_, session, template, lang, store) as (host, found, is_new):
            language = await host.language(found)
            talking = Repl(host, found, _source(host, found, language), json)
            if sys.stdin.isatty():
                say(f"session {found['id']} ({language}); .help shows what can be done, Ctrl-D leaves")
            await talking.talk()
            if is_new and not talking.has_run:
                await host.delete(found["id"])
            elif sys.stdin.isatty():
                say(f"go on with: {again(globals_, talking.session['id'], store)}")
        return Exit.FINE

    return asyncio.run(talk())


def again(globals_: Globals, session_id: str, store: str | None) -> str:
    """The command that goes on with a session, wherever it is.

    >>> again(Globals(), "X", None), again(Globals("http://127.0.0.1:1"), "X", None), again(Globals(), "X", "a b.db")
    ('holdfast repl X', 'holdfast --server-url http://127.0.0.1:1 repl X', "holdfast repl X --store 'a b.db'")
    """
    words = ["holdfast", "repl", session_id]
    if store is not None:
        words += ["--store", store]
    elif globals_.server_url:
        words[1:1] = ["--server-url", globals_.server_url]
    return shlex.join(words)


@asynccontextmanager
async def _place(
    globals_: Globals, session: str | None, template: str | None, lang: str | None, store: str | None
) -> "AsyncIterator[tuple[Host, Json, bool]]":
    """Where to talk, in which session, and whether that is a new one."""
    if store is None and (globals_.server_url or os.environ.get("HOLDFAST_SERVER_URL")):
        async with globals_.host() as remote:
            yield remote, *await _session_at(remote, session, template)
        return
    async with opened(local_store(store)) as local:
        if session is None and template is None:
            yield local, await local.begin(lang or "javascript", {}, None, {}), True
            return
        found: tuple[Json, bool] | None = None
        with suppress(SessionNotFound):
            found = await _session_at(local, session, template)
        if found is not None:
            yield local, *found
            return
    if store is not None:
        raise SessionNotFound(f"there is no session {session!r} in this store")
    async with globals_.host() as remote:  # perhaps it is the daemon's
        yield remote, *await _session_at(remote, session, None)


async def _session_at(host: Host, session: str | None, template: str | None) -> tuple[Json, bool]:
    if session is not None:
        return await host.session(session), False
    if template is None:
        raise usage("say which session, or --template for a new one", "`holdfast template list` shows what there is")
    return await host.create(template), True


def _source(host: Host, session: Json, language: str) -> Source:
    if not sys.stdin.isatty():
        return Piped(language)
    from holdfast.cli._completing import Names, SessionCompleter

    completer = SessionCompleter(Names(host, language), language)
    completer.session_id = session["id"]
    return Typed(language, made_data_dir() / _HISTORY, completer)


class Repl:
    """One conversation. `session` is the one that it is about now."""

    def __init__(self, host: Host, session: Json, source: Source, json: bool = False) -> None:
        self.host, self.session, self.source, self.json = host, session, source, json
        self.snippets: list[str] = []
        """What ran without an error, for `.save`."""
        self.has_run = False

    async def talk(self) -> None:
        """Until the end of input, or `.exit`. What goes wrong is told, and the conversation goes on."""
        dots = Dots(self)
        goes_on = await self.told(self.attend_open)
        while goes_on:
            try:
                snippet = await self.source.snippet()
            except Stopped:
                continue
            if snippet is None:
                return
            if is_dot(snippet):
                goes_on = await self.told(partial(dots.do, snippet))
            elif snippet.strip():
                goes_on = await self.told(partial(self.run, snippet))

    async def told(self, work: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await work()
        except HoldfastError as error:
            tell(error)
            return True

    async def run(self, snippet: str) -> bool:
        """Runs a snippet. Gives whether to go on: not if it waits for somebody and nobody answers."""
        self.has_run = True
        execution = await self._attended(await self.host.start(self.session["id"], snippet), 0)
        if execution["status"] == "ok":
            self.snippets.append(snippet)
        return execution["status"] in FINAL

    async def attend_open(self) -> bool:
        """Attends to what waits in the session already, if anything does."""
        self.session = await self.host.session(self.session["id"])
        if self.session["execution_id"] is None:
            return True
        execution = await self.host.look(self.session["execution_id"], 0)
        if execution["status"] in FINAL:
            return True
        return (await self._attended(execution, execution["seq"]))["status"] in FINAL

    async def _attended(self, execution: Json, shown: int) -> Json:
        execution_id = execution["id"]
        attended = Attended(self.session, shown)
        out = sys.stderr if self.json else sys.stdout
        tasks: set[asyncio.Task[Json]] = set()

        def stop() -> None:
            if sys.stderr.isatty():
                say()  # after the ^C
            tasks.add(asyncio.ensure_future(self.host.cancel(execution_id)))

        with _interrupts(stop):
            try:
                execution = await attend(self.host, execution, attended, out, self.source.line, _say_harmless)
            except Stopped:  # Ctrl-C where it asked
                execution = await self.host.cancel(execution_id)
            await asyncio.gather(*tasks)
        if self.json:
            print_json(document(self.session, execution))
        elif execution["status"] in FINAL:
            show_end(execution)
        return execution


def _say_harmless(text: str) -> None:
    say(harmless(text, sys.stderr))


@contextmanager
def _interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C stops what runs, and not us."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, stop)
    except (NotImplementedError, RuntimeError, ValueError):  # not on this platform, or not on this thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
