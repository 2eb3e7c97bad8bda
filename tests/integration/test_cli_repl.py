"""`holdfast repl`: typed at prompt_toolkit, through a pipe, and at a real terminal."""

import asyncio
import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from holdfast.cli._completing import Names, SessionCompleter
from holdfast.cli._local import Local, opened
from holdfast.cli._repl import Repl
from holdfast.cli._typing import Typed, private
from tests.integration.cli_process import COMMAND, Terminal, environment

ENTER, CTRL_C, CTRL_D = "\r", "\x03", "\x04"
STORE = ""
PROMPT = "\x1b[?2004h"
"""What a terminal is told when a prompt begins."""


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    """One file for all: the templates of the languages are made once."""
    global STORE
    STORE = f"sqlite:///{tmp_path_factory.mktemp('repl')}/local.db"


@contextlib.asynccontextmanager
async def talking(language, keys, tmp_path=None):
    """A REPL at which these keys are typed."""
    async with opened(STORE) as local:
        session = await local.begin(language, {}, None, {})
        completer = SessionCompleter(Names(local, language), language)
        completer.session_id = session["id"]
        with create_pipe_input() as pipe:
            pipe.send_text(keys)
            history = None if tmp_path is None else tmp_path / "history"
            source = Typed(language, history, completer, input=pipe, output=DummyOutput())
            yield Repl(local, session, source), pipe


def typed(language, keys, tmp_path=None):
    """The REPL after all keys were typed, and Ctrl-D."""

    async def talk():
        async with talking(language, keys + CTRL_D, tmp_path) as (repl, _):
            async with asyncio.timeout(30):
                await repl.talk()
            return repl

    return asyncio.run(talk())


def test_what_is_typed_runs_and_is_remembered_in_a_private_file(tmp_path, capsys):
    repl = typed("javascript", f"const a = 20{ENTER}a + 22{ENTER}throw 1{ENTER}", tmp_path)
    said = capsys.readouterr()
    assert said.out == "42\n"
    assert "(SCRIPT_ERROR)" in said.err
    assert repl.snippets == ["const a = 20", "a + 22"]
    assert (tmp_path / "history").stat().st_mode & 0o777 == 0o600
    assert "+a + 22\n" in (tmp_path / "history").read_text()


def test_a_history_that_others_could_read_is_closed_to_them(tmp_path):
    file = tmp_path / "history"
    file.write_text("+secret\n")
    file.chmod(0o644)
    private(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_text() == "+secret\n"


def test_a_snippet_goes_on_until_it_is_whole(capsys):
    typed("javascript", f"const o = {{{ENTER}a: 1,{ENTER}b: 2}}{ENTER}o.b{ENTER}f({ENTER}{ENTER}")
    said = capsys.readouterr()
    assert said.out == "2\n"
    assert "SyntaxError" in said.err  # an empty line sends what there is
    typed("lua", f"for i = 1, 2 do{ENTER}print(i){ENTER}end{ENTER}")
    assert capsys.readouterr().out == "1\n2\n"


def test_questions_are_asked_in_the_prompt(capsys):
    typed("javascript", f"await ask('Who?') + await approve('Sure?'){ENTER}Ada{ENTER}y{ENTER}")
    said = capsys.readouterr()
    assert said.out == "Adatrue\n"
    assert said.err == "? Who?\n? Sure?\n"


def test_ctrl_c_clears_a_line_and_cancels_what_asks(capsys):
    typed("javascript", f"nonsense({CTRL_C}1 + 1{ENTER}await ask('Who?'){ENTER}{CTRL_C}2 + 2{ENTER}")
    said = capsys.readouterr()
    assert said.out == "2\n4\n"
    assert "the execution was cancelled (CANCELLED)" in said.err


def test_ctrl_d_at_a_question_leaves_the_session_waiting(capsys):
    async def talk():
        async with talking("javascript", f"'got ' + await ask('Who?'){ENTER}{CTRL_D}") as (repl, pipe):
            await repl.talk()
            assert (await repl.host.session(repl.session["id"]))["status"] == "paused"
            pipe.send_text(f"Ada{ENTER}{CTRL_D}")  # whoever comes next is asked first
            await Repl(repl.host, repl.session, repl.source).talk()

    asyncio.run(talk())
    assert capsys.readouterr().out == "got Ada\n"


def test_forks_and_rewinds(capsys, tmp_path):
    file = tmp_path / "said.js"
    keys = [
        "var a = 1",
        ".fork",
        "a = 2",
        ".rewind 0",
        "a",
        ".tree",
        ".checkpoints",
        ".queries",
        f".save {file}",
        f".load {file}",
        ".rewind x",
        ".load",
        ".nonsense",
        ".5 + 1",
        ".load nowhere.js",
        ".help",
        ".exit",
        "'not run'",
    ]
    repl = typed("javascript", "".join(key + ENTER for key in keys))
    said = capsys.readouterr()
    assert said.out.startswith("2\n1\nsession ")  # a = 2, then a as it was where the fork began
    assert "(forked from " in said.out
    assert "No queries found" in said.out
    assert file.read_text() == "var a = 1\na = 2\na\n"
    assert repl.snippets[-2:] == [file.read_text(), ".5 + 1"]
    assert "say which file: .load FILE (USAGE)" in said.err
    assert "there is no command .nonsense (USAGE)\nhint: .help shows" in said.err
    assert "say which checkpoint: .rewind N (USAGE)" in said.err
    assert "(FILE_NOT_FOUND)" in said.err
    assert "'not run'" not in said.out


# ---- completion --------------------------------------------------------------------------------------------------------------------


async def completed(completer, text):
    found = completer.get_completions_async(Document(text), CompleteEvent(completion_requested=True))
    return [completion.text async for completion in found]


@pytest.mark.parametrize(
    ("language", "snippet", "expected"),
    [
        (
            "javascript",
            "const trip = {city: 'Lima', get cost() { throw 1 }}; let total = 0; class Plan {}",
            {
                "tr": ["trip", "true", "try"],
                "tot": ["total"],
                "1 + trip.": ["city", "cost"],
                "trip.city.toUp": ["toUpperCase"],
                "trip.cost.x": [],
                "nobody.": [],
                "JSON.": ["parse", "stringify"],
                ".re": [".rewind"],
            },
        ),
        (
            "lua",
            "trip = {city = 'Lima'}; setmetatable(trip, {__index = {pay = 1}})",
            {
                "tr": ["trip", "true"],
                "trip.": ["city", "pay"],
                "trip.city:up": ["upper"],
                "trip:p": ["pay"],
                "string.rev": ["reverse"],
            },
        ),
    ],
)
def test_names_are_completed_and_the_session_does_not_notice(language, snippet, expected):
    async def complete():
        async with opened(STORE) as local:
            session = await local.begin(language, {}, None, {})
            await local.run(session["id"], snippet)
            before = await traces(local, session["id"])
            completer = SessionCompleter(Names(local, language), language)
            completer.session_id = session["id"]
            for text, wanted in expected.items():
                found = await completed(completer, text)
                assert set(wanted) <= set(found), (text, found)
                assert wanted or not found
            assert await traces(local, session["id"]) == before
            await local.run(session["id"], "await ask('Who?')" if language == "javascript" else "alc.ask('Who?')")
            assert await completed(completer, "trip.") == []  # it waits: nothing can be asked of a fork either

    asyncio.run(complete())


async def traces(local: Local, session_id):
    executions = await local.hf.executions.list(session_id)
    sessions = await local.hf.sessions.list()
    return (
        await local.session(session_id),
        await local.tree(session_id),
        [e.id for e in executions.items],
        [s.id for s in sessions.items],
    )


# ---- processes ---------------------------------------------------------------------------------------------------------------------


def test_through_a_pipe(tmp_path, capsys, monkeypatch):
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    holdfast = Terminal(capsys)
    said = holdfast("repl", "--json", typed="const f = x => {\n return x + 1 }\nf(await approve('Sure?') ? 1 : 2)\nyes\n")
    assert [line.split('"result":')[1][:24] for line in said.out.splitlines()] == [
        '{"type":"undefined","pre',
        '{"type":"number","previe',
    ]
    assert said.err == "? Sure?\n"
    assert holdfast("repl", "nobody", "--store", "memory:").code == 3
    assert holdfast("repl", "x", "--lang", "lua").code == 2


def test_at_a_terminal(tmp_path):
    """Colours, completion by Tab, and Ctrl-C that stops what runs and not the REPL."""
    master, slave = pty.openpty()
    more = {"TERM": "xterm-256color", "NO_COLOR": "", "PROMPT_TOOLKIT_NO_CPR": "1"}
    command = [*COMMAND, "repl"]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment(tmp_path, **more), start_new_session=True
    )
    os.close(slave)
    try:
        read_until(master, PROMPT)
        os.write(master, b"const trip = {city: 41}\r")
        assert "\x1b[0;38;5;28;1mconst" in read_until(master, PROMPT)
        os.write(master, b"trip.ci\t")
        read_until(master, "ty")
        os.write(master, b" + 1\r")
        assert "\n42\r" in read_until(master, PROMPT).replace("\x1b[?2004l", "\n")
        os.write(master, b"await new Promise(r => setTimeout(r, 60000))\r")
        read_until(master, "\x1b[?2004l")
        time.sleep(0.2)
        os.kill(process.pid, signal.SIGINT)  # as a terminal does that this process is the foreground of
        assert "(CANCELLED)" in read_until(master, PROMPT)
        os.write(master, b"6 * 7\r")
        assert "42\r\n" in read_until(master, PROMPT)
        os.write(master, CTRL_D.encode())
        assert re.search("holdfast repl [0-9a-f-]{36}", read_until(master, "go on with: holdfast repl ", 36))
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def read_until(master, text, more=0):
    """What a terminal shows, up to this text and so many characters after it."""
    shown = ""
    until = time.monotonic() + 30
    while text not in shown or len(shown.partition(text)[2]) < more:
        assert time.monotonic() < until, shown
        if select.select([master], [], [], 1)[0]:
            shown += os.read(master, 4096).decode(errors="replace")
    return shown
