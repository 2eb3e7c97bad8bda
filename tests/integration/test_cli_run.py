"""`holdfast run` and `holdfast resume`, `demo` and `doctor`: all that needs no daemon."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys

import pytest

from holdfast.cli import _run
from holdfast.cli._local import opened
from tests.integration.cli_process import COMMAND, Terminal, environment, started

UUID = "[0-9a-f]{8}-[0-9a-f-]{27}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """One data directory for all: the templates of `run` are made once."""
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def holdfast(data, capsys, monkeypatch):
    for name, value in environment(data).items():
        if name.startswith(("HOLDFAST_", "NO_COLOR")):
            monkeypatch.setenv(name, value)
    for name in ("HOLDFAST_SERVER_URL", "HOLDFAST_TOKEN", "HOLDFAST_LOCAL_STORE"):
        monkeypatch.delenv(name, raising=False)
    return Terminal(capsys)


# ---- results -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "shown"),
    [("1+1", "2\n"), ("'a b'", "a b\n"), ("({a: [1]})", "{ a: [ 1 ] }\n"), ("undefined", ""), ("null", "null\n")],
)
def test_the_value_is_printed(holdfast, code, shown):
    assert holdfast("run", "-e", code) == (0, shown, "")


def test_lua(holdfast, tmp_path):
    script = tmp_path / "a.lua"
    script.write_text("print(__ARGS__.who) return 6 * 7")
    assert holdfast("run", str(script), "--arg", "who=Ada") == (0, "Ada\n42\n", "")
    assert holdfast("run", "--lang", "lua", "-e", "x = 1") == (0, "", "")


def test_a_file_with_arguments_and_its_name_in_traces(holdfast, tmp_path):
    script = tmp_path / "job.mjs"
    script.write_text("console.log(__ARGS__.n, __ARGS__.who);\nthrow new RangeError('too far')")
    code, out, err = holdfast("run", str(script), "--args", '{"n": 3}', "--arg", "who=Ada")
    assert (code, out) == (1, "3 Ada\n")
    assert "job.mjs:2" in err
    assert str(tmp_path) not in err
    assert err.endswith("error: RangeError: too far (SCRIPT_ERROR)\n")


def test_what_goes_to_stderr(holdfast):
    assert holdfast("run", "-e", "console.log('a'); console.error('b'); console.warn('c'); 1") == (0, "a\n1\n", "b\nc\n")


def test_json_is_one_document_and_nothing_else_on_stdout(holdfast):
    said = holdfast("run", "--json", "-e", "console.log('hi'); ({a: 1})")
    assert said.err == "hi\n"
    assert said.json["status"] == "ok"
    assert said.json["result"] == {"type": "Object", "preview": "{ a: 1 }", "json": {"a": 1}}
    assert set(said.json) == {"session_id", "name", "execution_id", "status", "result", "error", "queries"}
    failed = holdfast("run", "--json", "-e", "null.x")
    assert (failed.code, failed.json["error"]["name"], failed.err) == (1, "TypeError", "")


def test_what_no_encoding_has_is_escaped(holdfast):
    assert holdfast("run", "-e", r"console.log('\udc00'); '\ud800'") == (0, "\\udc00\n\\ud800\n", "")
    assert holdfast("run", "--json", "-e", r"'\ud800é'").json["result"]["json"] == "\ud800é"


def test_an_error_of_lua_is_called_an_error_once(holdfast):
    assert holdfast("run", "--lang", "lua", "-e", "error('no')").err.endswith("error: <repl>:1: no (SCRIPT_ERROR)\n")


def test_what_is_refused_or_not_read_leaves_nothing_behind(holdfast, data, monkeypatch, tmp_path):
    script = tmp_path / "a.js"
    script.write_text("1")

    async def count():
        async with opened(f"sqlite:///{data}/local.db") as local:
            return len((await local.hf.sessions.list(limit=1000)).items)

    def gone(execution):
        raise BrokenPipeError

    before = asyncio.run(count())
    assert holdfast("run", str(script), "--args", "NaN").code == 2
    monkeypatch.setattr(_run, "show_end", gone)
    assert holdfast("run", str(script)).code == 1
    assert asyncio.run(count()) == before


def test_a_limit_has_an_exit_code_of_its_own(holdfast):
    code, _, err = holdfast("run", "-e", "for (;;);", "--limit", "cpu_ms=50")
    assert code == 6
    assert "cpu_ms exceeded: 50 allowed" in err
    assert "(LIMIT_EXCEEDED)\nhint: " in err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["run"], 2, "give a script or -e CODE (USAGE)"),
        (["run", "a.js", "-e", "1"], 2, "(USAGE)"),
        (["run", "nowhere.js"], 3, "there is no file nowhere.js (FILE_NOT_FOUND)"),
        (["run", "nowhere"], 3, "there is no file nowhere (FILE_NOT_FOUND)"),
        (["run", "-e"], 2, "hint: `holdfast run --help` shows"),
        (["run", "-e", "1", "--limit", "wall_ms"], 2, "the names are wall_ms, "),
        (["run", "-e", "1", "--name", " "], 2, "--name is blank"),
        (["run", "-e", "1", "--name", "\udcff"], 2, "--name is not text in UTF-8"),
        (["run", "-e", "'\udcff'"], 2, "-e is not text in UTF-8"),
        (["run", "."], 2, ". cannot be read"),
        (["run", __file__], 2, "what language"),
        (["run", "-e", "1", "--lang", "cobol"], 2, "there is no language 'cobol'"),
        (["run", "-e", "1", "--store", "nonsense:x"], 2, "(STORE_UNKNOWN)"),
        (["run", "--nope"], 2, "No such option: --nope"),
        (["resume", "3f2504e0-4f89-41d3-9a0c-0305e82c3301"], 3, "(SESSION_NOT_FOUND)"),
        (["nonsense"], 2, "No such command"),
    ],
)
def test_what_cannot_be_done_is_told_with_a_code(holdfast, words, code, told):
    said = holdfast(*words)
    assert (said.code, said.out) == (code, "")
    assert said.err.startswith("error: ")
    assert told in said.err


# ---- questions ---------------------------------------------------------------------------------------------------------------------


def test_answers_are_read_line_by_line(holdfast):
    code = """
        const who = await ask("Who?"), sure = await approve("Sure?");
        const way = await ask("Which way?", {options: ["left", {to: "right"}]});
        const text = await llm("Say it.", {system: "Be brief."});
        ({who, sure, way, text, last: await ask("More?", {default: "no"})})
    """
    said = holdfast("run", "--json", "-e", code, typed="Ada\nmaybe\ny\n2\none\ntwo\n\n\n")
    assert said.json["result"]["json"] == {"who": "Ada", "sure": True, "way": {"to": "right"}, "text": "one\ntwo", "last": "no"}
    asked = ["? Who?", "? Sure?", "  say y or n", "? Which way?", "  1) left", '  2) {"to": "right"}', "  system: Be brief."]
    assert [line for line in said.err.splitlines() if line in asked] == asked


def test_several_questions_at_once_are_asked_in_their_order(holdfast):
    code = "(await Promise.all([ask('a'), ask('b'), ask('c')])).join()"
    assert holdfast("run", "-e", code, typed="1\n2\n3").out == "1,2,3\n"


def test_branches_are_asked_for_in_the_name_of_their_session(holdfast):
    branches = "{function() return alc.llm('a') end, function() return alc.ask('b') end}"
    code = f"local found = alc.fork({branches}, {{}}) return found[1].result .. found[2].result"
    said = holdfast("run", "--lang", "lua", "-e", code, typed="one\n\n")
    session = re.search(rf"session ({UUID}) waits", said.err)[1]
    assert [one["id"] for one in holdfast("resume", "--list", "--json").json] == [session]
    assert holdfast("resume", typed="two\n").out == "onetwo\n"


def test_at_the_end_of_input_the_session_waits_and_resume_goes_on(holdfast):
    code = "console.log('before'); const who = await ask('Who?'); console.log('after'); who + '!'"
    said = holdfast("run", "-e", code)
    assert (said.code, said.out) == (0, "before\n")
    session = re.fullmatch(rf"\? Who\?\nsession ({UUID}) waits; go on with: holdfast resume \1\n", said.err)[1]
    assert session in holdfast("resume", "--list").out
    assert [one["id"] for one in holdfast("resume", "--list", "--json").json] == [session]
    again = holdfast("resume", session, "--json")
    assert (again.code, again.json["status"], again.json["session_id"]) == (0, "paused", session)
    assert again.json["queries"][0]["payload"] == {"question": "Who?"}
    assert holdfast("resume", typed="Ada\n").out == "after\nAda!\n"
    assert holdfast("resume").code == 3


def test_where_it_waits_is_said_if_it_is_not_where_everybody_looks(holdfast, data):
    said = holdfast("run", "-e", "await ask('Who?')", "--store", f"{data}/local.db")
    assert re.search(f"holdfast resume {UUID} --store {data}/local.db\n", said.err)
    assert holdfast("resume", "--store", f"{data}/local.db", typed="Ada").out == "Ada\n"
    assert "in memory only" in holdfast("run", "-e", "await ask('Who?')", "--store", "memory:").err


def test_who_resumes_a_sleeper_is_told_so(data, capsys):
    async def sleep():
        async with opened(f"sqlite:///{data}/local.db") as local:
            session = await local.begin("javascript", {}, None, {"script": "-e"})
            await local.run(session["id"], "await hf.sleep(60_000)")
            await _run._say_what_it_does(local, session["id"])
            await local.delete(session["id"])

    asyncio.run(sleep())
    assert re.fullmatch(r"it sleeps until \d{4}-\S+Z\n", capsys.readouterr().err)


def test_what_has_ended_leaves_nothing_unless_it_has_a_name(holdfast):
    holdfast("run", "-e", "1", "--name", "kept")
    assert holdfast("resume", "kept").out == "1\n"
    assert holdfast("repl", "kept", typed="this.constructor.name\n").code == 0
    unnamed = holdfast("run", "--json", "-e", "1").json["session_id"]
    assert holdfast("resume", unnamed).code == 3


def test_what_was_made_of_a_session_at_the_repl_is_not_thrown_away(holdfast):
    session = holdfast("run", "--json", "-e", "var who = await ask('Who?'); who").json["session_id"]
    assert holdfast("repl", session, typed="Ada\nwho += '!'\n").out == "Ada\nAda!\n"
    assert holdfast("resume", session).out == "Ada!\n"
    assert holdfast("repl", session, typed="who\n").out == "Ada!\n"
    assert holdfast("resume", "--delete").code == 2
    assert holdfast("resume", "--delete", session).out == f"Deleted session: {session}\n"
    assert holdfast("resume", session).code == 3


def test_a_script_from_stdin(holdfast):
    assert holdfast("run", "-", "--lang", "lua", typed="return 6 * 7").out == "42\n"


def test_a_question_that_the_clock_closes_is_let_go(holdfast):
    code = "const way = await ask('Left?', {timeout_ms: 300, default: 'straight on'}); way"
    said = holdfast("run", "-e", code, typed=None)  # nobody types, and the pipe stays open
    assert (said.code, said.out) == (0, "straight on\n")
    assert said.err.startswith("? Left?\n")


def test_ctrl_c_leaves_a_session_that_goes_on(data, holdfast):
    processes = {
        "in its sleep": started(
            data, "run", "--json", "-e", "console.error('zzz'); await hf.sleep(1000); 'awake'", "--name", "slept"
        ),
        "at a question": started(data, "run", "--json", "-e", "await ask('Who?')", "--name", "asked"),
    }
    for process in processes.values():
        assert process.stderr is not None
        assert process.stderr.readline() in ("? Who?\n", "zzz\n")
        process.send_signal(signal.SIGINT)
    for process in processes.values():
        out, err = process.communicate(timeout=30)
        assert (process.returncode, out) == (130, "")
        assert re.fullmatch(rf"session ({UUID}) waits; go on with: holdfast resume \1\n", err)
    assert holdfast("resume", "asked", typed="Ada").out == "Ada\n"
    assert holdfast("resume", "slept").out == "awake\n"


def test_the_demo(holdfast):
    done = holdfast("demo", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert told["killed_by"] == signal.SIGKILL
    assert [fork["value"] for fork in told["forks"]] == [f"Lima: {way}" for way in ("by train", "by ship")]
    pause = next(node for node in told["tree"]["nodes"] if node["head"])
    assert sorted(pause["forks"]) == sorted(fork["session_id"] for fork in told["forks"])
    assert told["seconds"] < 60


# ---- the rest ----------------------------------------------------------------------------------------------------------------------


def test_streams_that_are_closed_are_no_files_of_ours(data):
    """The next file that is opened would have the number of stdout: that is the store."""
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *COMMAND, "run", "-e", "console.log(1); await ask('Who?')"]
    done = subprocess.run(command, env=environment(data), timeout=60, check=False)
    assert done.returncode == 0


def test_run_imports_nothing_that_it_does_not_need(data):
    code = """
import sys
from holdfast.cli import main
assert main(["run", "-e", "1+1"]) == 0
print([name for name in ("fastapi", "uvicorn", "httpx2", "mcp", "prompt_toolkit", "typer", "rich", "argparse") if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(data), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "2\n[]\n"


def test_doctor_says_what_is_wrong_and_what_to_do(holdfast, data, monkeypatch):
    monkeypatch.setenv("HOLDFAST_LISTEN", "127.0.0.1:9")
    (data / "token").write_text("hf_" + "a" * 43)
    (data / "token").chmod(0o644)
    said = holdfast("doctor", "--json")
    found = {one["check"]: one for one in said.json["checks"]}
    assert (said.code, said.json["status"]) == (1, "failed")
    assert (found["token"]["status"], found["daemon"]["status"]) == ("failed", "warning")
    assert "chmod 600" in found["token"]["hint"]
    (data / "token").unlink()
    monkeypatch.setenv("HOLDFAST_CONFIG", str(data / "none.toml"))
    failed = [one for one in holdfast("doctor", "--json").json["checks"] if one["status"] == "failed"]
    assert [one["check"] for one in failed] == ["configuration"]  # and not once more for each that needs it
    monkeypatch.delenv("HOLDFAST_DATA_DIR")
    assert holdfast("run", "-e", "1").code == 2  # its sessions would be somewhere else
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(data))
    monkeypatch.setenv("HOLDFAST_CONFIG", os.devnull)
    said = holdfast("doctor")
    assert said.code == 0
    assert re.search("^ok +guests cached: ", said.out, re.MULTILINE)
    assert "holdfast serve" in said.out


def test_cac_02_cac_04_fixed_libraries_are_fetched_with_npm_and_looked_after(holdfast, data, tmp_path, monkeypatch):
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    lock = {"packages": {"node_modules/is-x": {"version": "1.0.0", "integrity": "sha512-a"}}}
    npm.write_text(
        f"#!{sys.executable}\nimport os, sys\n"
        "if 'is-x' not in open('package.json').read(): sys.exit('E404')\n"
        f"open('package-lock.json', 'w').write({json.dumps(lock)!r})\n"
        "os.makedirs('node_modules/is-x')\n"
        "open('node_modules/is-x/package.json', 'w').write('{}')\n"
        "open('node_modules/is-x/index.js', 'w').write('module.exports = 7')\n"
    )
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", str(npm.parent))
    assert holdfast("libs", "add", "is-x@1").out == "is-x-1.0.0: sha512-a\n"
    file = data / "libraries" / "is-x-1.0.0.js"
    assert "module.exports = 7" in file.read_text()
    npm.rename(tmp_path / "no npm")
    assert holdfast("libs", "add", "is-x@1.0.0", "--json").json["libraries"][0]["global"] == "isX"  # it is there
    (tmp_path / "no npm").rename(npm)
    said = holdfast("libs", "add", "other@1")
    assert (said.code, "npm could not fetch other@1 (DOWNLOAD_FAILED)\nhint: E404" in said.err) == (1, True)
    (tmp_path / "own.js").write_text("var own = 1")
    own = str(tmp_path / "own.js")
    assert holdfast("libs", "add", own, "--name", "own", "--version", "1").code == 0
    (tmp_path / "own.js").write_text("var own = 2")
    assert "(LIBRARY_EXISTS)" in holdfast("libs", "add", own, "--name", "own", "--version", "1").err
    assert holdfast("libs", "add", own, "--name", "own", "--version", "1", "--replace").code == 0
    for words in ([own], ["x@1", "--name", "x"], [own, "x@1", "--name", "x", "--version", "1"], ["a", "b", "--global", "c"]):
        assert holdfast("libs", "add", *words).code == 2
    assert "(LIBRARY_UNKNOWN)" in holdfast("libs", "add", "../x@1.0.0").err
    listed = {one["id"]: one["cached"] for one in holdfast("libs", "list", "--json").json}
    assert (listed["lodash"], listed["is-x"], listed["own"]) == ("", "ok", "ok")
    assert "lodash" in holdfast("libs", "list").out
    assert holdfast("libs", "verify").code == 0
    file.write_text("evil")
    said = holdfast("libs", "verify", "--json")
    assert (said.code, said.json["ok"], said.json["libraries"][0]["state"]) == (1, False, "changed")
    assert "holdfast libs add is-x@1.0.0" in holdfast("libs", "verify").err
    assert holdfast("libs", "cache-info", "--json").json["bytes"] == len("evil") + len("var own = 2")
    assert holdfast("libs", "remove", "is-x").out == "removed is-x-1.0.0.js\n"
    assert holdfast("libs", "remove", "is-x").code == 3
    assert holdfast("libs", "download").code == 1  # this npm has none of them


def test_tokens_and_configuration(holdfast, data, tmp_path):
    made = holdfast("token", "create", "ci", "--scope", "run", "--json").json
    assert made["secret"].startswith("hf_")
    assert (data / "tokens.json").stat().st_mode & 0o777 == 0o600
    assert made["secret"] not in (data / "tokens.json").read_text()
    assert holdfast("token", "create", "ci").code == 4
    assert [one["name"] for one in holdfast("token", "list", "--json").json] == ["ci"]
    assert holdfast("token", "revoke", "ci").out == f"Revoked token: ci (ID: {made['id']})\n"
    assert holdfast("token", "revoke", "ci").code == 3
    config = tmp_path / "config.toml"
    config.write_text('listen = "127.0.0.1:4444"')
    shown = holdfast("--config", str(config), "config", "show", "--json").json
    assert shown["listen"] == {"value": "127.0.0.1:4444", "origin": f"file {config}"}
    config.write_text("nonsense = 1")
    assert holdfast("--config", str(config), "config", "show").code == 2
    assert holdfast("--config", str(config), "config", "path").out == f"{config}\n"


def test_the_version_and_completion(holdfast):
    assert re.fullmatch(r"holdfast \d+\.\d+\.\d+\n", holdfast("--version").out)
    assert "session" in holdfast("--help").out
    said = holdfast("session")
    assert said.code == 2
    assert "rewind" in said.out


@pytest.mark.parametrize(
    ("words", "number", "found"), [("holdfast session re", 2, ["rewind"]), ("holdfast run --l", 2, ["--lang", "--limit"])]
)
def test_the_shell_completes_commands(holdfast, capsys, monkeypatch, words, number, found):
    monkeypatch.setenv("_HOLDFAST_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(number))
    with pytest.raises(SystemExit) as ended:
        holdfast()
    assert (ended.value.code, capsys.readouterr().out.split()) == (0, found)
