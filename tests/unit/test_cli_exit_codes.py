"""Exit codes and what is typed: decided without running anything."""

import io
import sys

import pytest

from holdfast import domain
from holdfast.cli import _exits, _quick, _streams, main
from holdfast.cli._exits import CommandFailed, Exit, exit_of, exit_of_execution, hint_of
from holdfast.cli._given import arguments_of, limits_of, script_of
from holdfast.cli._snippets import is_whole
from holdfast.cli._tables import drawn, table
from holdfast.cli._terminal import _visible, drawable, print_json
from holdfast.cli.app import parsing
from holdfast.client import ApiError, NoAnswer, Unreachable
from holdfast.domain import HoldfastError
from holdfast.http._statuses import STATUSES


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("SESSION_NOT_FOUND", 3),
        ("FILE_NOT_FOUND", 3),
        ("TOKEN_NOT_FOUND", 3),
        ("SESSION_BUSY", 4),
        ("NAME_TAKEN", 4),
        ("ALREADY_RUNNING", 4),
        ("LEASE_LOST", 4),
        ("LIMIT_EXCEEDED", 6),
        ("OUTPUT_LIMIT_EXCEEDED", 6),
        ("BUDGET_EXCEEDED", 6),
        ("VALIDATION_ERROR", 2),
        ("CONFIG_INVALID", 2),
        ("FORBIDDEN", 1),
        ("WORKTREE_NOT_FOUND", 1),
        ("SOMETHING_NEW", 1),
    ],
)
def test_a_code_ends_with(code, wanted):
    assert exit_of(CommandFailed("x", code)) == wanted


@pytest.mark.parametrize(("code", "status"), STATUSES.items())
def test_what_a_daemon_answers_ends_by_its_status(code, status):
    by_status = {400: 2, 404: 3, 408: 6, 409: 4, 429: 6, 503: 5}
    known_better = {"LEASE_LOST": 4, "STORE_UNKNOWN": 2}  # a conflict with another process, a wrong address
    if status in by_status:
        assert exit_of(ApiError.of(status, code, "x")) == known_better.get(code, by_status[status])


def test_a_code_that_is_not_known_yet_ends_by_its_status():
    assert exit_of(ApiError.of(409, "NEW_CONFLICT", "x")) == Exit.CONFLICT
    assert exit_of(ApiError.of(500, "INTERNAL", "x")) == Exit.FAILED


def test_a_daemon_that_is_not_there_is_not_one_that_is_slow():
    assert exit_of(Unreachable()) == Exit.UNREACHABLE
    assert exit_of(NoAnswer()) == Exit.LIMIT
    assert "holdfast serve" in (hint_of(Unreachable()) or "")


def test_every_conflict_of_the_domain_is_one_here():
    kinds = [kind for kind in vars(domain).values() if isinstance(kind, type) and issubclass(kind, domain.Conflict)]
    assert len(kinds) > 5
    for kind in kinds:
        error = CommandFailed("x", kind.code)
        assert exit_of(error) == Exit.CONFLICT, kind.code


@pytest.mark.parametrize(
    ("execution", "wanted"),
    [
        ({"status": "ok"}, 0),
        ({"status": "paused", "error": None}, 0),
        ({"status": "error", "error": {"message": "bad"}}, 1),
        ({"status": "error", "error": {"code": "LIMIT_EXCEEDED"}}, 6),
        ({"status": "timeout", "error": {"code": "LIMIT_EXCEEDED"}}, 6),
        ({"status": "cancelled", "error": None}, 1),
    ],
)
def test_an_execution_ends_with(execution, wanted):
    assert exit_of_execution(execution) == wanted


def test_a_defect_is_told_in_one_line_and_not_hidden_from_who_asks(capsys, monkeypatch):
    def broken():
        raise LookupError("gone")

    monkeypatch.delenv("HOLDFAST_DEBUG", raising=False)
    assert _exits.guarded(broken) == 1
    assert capsys.readouterr().err.startswith("error: a defect in Holdfast: LookupError: gone (INTERNAL)\n")
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    with pytest.raises(LookupError):
        _exits.guarded(broken)


def test_what_the_system_refuses_is_no_defect(capsys):
    def full():
        raise OSError(28, "No space left on device", "/data")

    assert _exits.guarded(full) == 1
    assert capsys.readouterr().err == "error: the system refuses: /data: No space left on device (SYSTEM_ERROR)\n"


def test_a_stdout_that_cannot_be_written_is_given_up(capfd, monkeypatch):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert _exits.guarded(lambda: print("x") or 0) == 1
        full.flush()  # as the process does when it ends
    assert capfd.readouterr().err == "error: the system refuses: stdout: No space left on device (SYSTEM_ERROR)\n"


def test_ctrl_c_before_anything_has_begun_shows_no_trace(capsys, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(_streams, "prepare", interrupted)
    assert main(["run", "-e", "1"]) == 130
    assert capsys.readouterr().err == ""


def test_streams_that_are_not_there_are_made_up_for(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "stdout", None)
    _streams.prepare()
    with sys.stdin as stdin, sys.stdout as stdout:
        assert stdin.read() == ""
        stdout.write("x")


@pytest.mark.parametrize(
    ("code", "details", "hint"),
    [
        ("OUTPUT_LIMIT_EXCEEDED", {"execution_id": "E"}, "`holdfast exec events E`"),
        ("STARTUP_FAILED", {"session_id": "S"}, "`holdfast session errors S`"),
        ("MALFORMED_RESPONSE", {}, "is this a Holdfast daemon"),
    ],
)
def test_hints_know_what_it_is_about(code, details, hint):
    assert hint in (hint_of(CommandFailed("x", code).with_details(**details)) or "")


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self):
        return True


def test_a_table_without_colour_cannot_take_the_terminal_over(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "stdout", Screen())
    table(["Name", "State"], [["a\x1b[2J\nb", "ready"]], "none")
    assert sys.stdout.getvalue() == "Name      State\na␛[2J\\nb  ready\n"


@pytest.mark.parametrize(
    ("encoding", "document", "line"),
    [
        ("utf-8", "é├", '"é├"'),
        ("utf-8", "é\ud800", '"\\u00e9\\ud800"'),
        ("ascii", "é", '"\\u00e9"'),
    ],
)
def test_json_is_json_whatever_stdout_can_take(monkeypatch, encoding, document, line):
    taken = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", taken)
    print_json(document)
    assert taken.buffer.getvalue().decode(encoding) == f"{line}\n"
    assert drawable("├─ 1", taken) == ("├─ 1" if encoding == "utf-8" else "|- 1")


# ---- what is typed -----------------------------------------------------------------------------------------------------------------

USUAL = [
    ["run", "a.js"],
    ["run", "-"],
    ["run", "-e", "1+1"],
    ["run", "--eval=a=b", "--json"],
    ["run", "-e", "-1", "--lang", "lua"],
    ["run", "--json", "a.js", "--arg", "a=b=c", "--arg=d=", "--args", "{}", "--name", "n"],
    ["run", "--store", "x.db", "-e", "--json", "--limit", "wall_ms=1", "--limit=cpu_ms=2"],
    ["run", "-e", "", "-e", "2"],
    ["resume"],
    ["resume", "x", "--json", "--store=memory:"],
    ["resume", "--list"],
    ["resume", "--delete", "x"],
]


@pytest.mark.parametrize("words", USUAL, ids=" ".join)
def test_arguments_that_are_read_quickly_mean_what_typer_makes_of_them(words, monkeypatch):
    heard = []

    def hear(*given):
        heard.append(given)
        return 0

    from holdfast.cli import _run

    monkeypatch.setattr(_run, words[0], hear)
    parsing().main(words, prog_name="holdfast", standalone_mode=False)
    quick = _quick.parsed(words[0], words[1:])
    assert quick is not None
    order = {
        "run": ("script", "code", "lang", "store", "name", "args", "arg", "limit", "json"),
        "resume": ("session", "store", "json", "listed", "deleted"),
    }
    assert heard == [tuple(quick[name] for name in order[words[0]])]


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["a.js", "b.js"],
        ["-e"],
        ["--nope"],
        ["-e5"],
        ["--", "a.js"],
        ["--eval"],
        ["a.js", "--json=1"],
        [""],
        ["-e=1"],
    ],
    ids=" ".join,
)
def test_what_is_unusual_is_left_to_typer(words):
    assert _quick.parsed("run", words) is None


@pytest.mark.parametrize(
    "given",
    [
        {"script": None, "code": None},
        {"script": "a.js", "code": "1"},
        {"script": __file__, "code": None},
        {"script": None, "code": "1", "args": "{"},
        {"script": None, "code": "1", "args": "[]", "arg": ["a=b"]},
        {"script": None, "code": "1", "arg": ["a"]},
    ],
)
def test_nonsense_is_a_usage_error(given):
    with pytest.raises(HoldfastError) as raised:
        script_of(**({"lang": None, "args": None, "arg": []} | given))
    assert exit_of(raised.value) == Exit.USAGE


def test_arguments_of_a_script():
    assert arguments_of(None, []) is None
    assert arguments_of("[1]", []) == [1]
    assert arguments_of('{"a": 1}', ["a=2", "b=x=y"]) == {"a": "2", "b": "x=y"}
    for word in ("wall=1", "wall_ms", "wall_ms=-1", "wall_ms=²"):
        with pytest.raises(HoldfastError, match="--limit"):
            limits_of([word])


@pytest.mark.parametrize(
    ("snippet", "language", "wanted"),
    [
        ("1 + 1", "javascript", True),
        ("f(", "javascript", False),
        ("f(\n", "javascript", True),
        ("f(\n    ", "javascript", True),
        ("[1].map(x => {", "javascript", False),
        ("`a ${b", "javascript", False),
        ("`${`${1}`}`", "javascript", True),
        ("/[(]/.test('x')", "javascript", True),
        ("a / b(", "javascript", False),
        ("// (", "javascript", True),
        ("/* (", "javascript", False),
        ("x +", "javascript", False),
        ("i++", "javascript", True),
        ("() =>", "javascript", False),
        ('"(', "javascript", True),
        ("let newest", "javascript", True),
        ("let r = /a\\/(/", "javascript", True),
        (")", "javascript", True),
        ("for i = 1, 3 do", "lua", False),
        ("for i = 1, 3 do print(i) end", "lua", True),
        ("while x do y() end", "lua", True),
        ("do local x = 1", "lua", False),
        ("repeat x() until y", "lua", True),
        ("function f()", "lua", False),
        ("if a then b() else c() end", "lua", True),
        ("s = [[ abc", "lua", False),
        ("s = [==[ ]] ]==]", "lua", True),
        ("--[[ x", "lua", False),
        ("-- (", "lua", True),
        ("x = 1 +", "lua", False),
        ("return 'do'", "lua", True),
        ("end", "lua", True),
    ],
)
def test_a_snippet_is_whole_or_goes_on(snippet, language, wanted):
    assert is_whole(snippet, language) is wanted


def test_a_script_cannot_take_the_terminal_over():
    assert "".join(map(_visible, "a\x1b[2J\x07\x9bé\n")) == "a␛[2J␇\ufffdé\n"


def test_a_history_is_drawn_however_long_it_is():
    def node(number, parent, **more):
        return {
            "number": number,
            "parent": parent,
            "open": [],
            "head": False,
            "forks": [],
            "created_at": "t",
            "bytes": 1,
        } | more

    nodes = [node(0, None), node(1, 0, forks=["F"]), node(2, 1), node(3, 1, open=["q-1"], head=True), node(7, 5)]
    assert list(drawn({"session_id": "S", "origin": None, "nodes": nodes})) == [
        "session S",
        "0  beginning",
        "├─ 1  t  1 bytes",
        "│  ├─ fork F",
        "│  ├─ 2  t  1 bytes",
        "│  └─ 3  t  1 bytes  waits for q-1  <- here",
        "└─ 7  t  1 bytes",
    ]
    long = [node(number, number - 1 if number else None) for number in range(20_000)]
    assert len(list(drawn({"session_id": "S", "origin": None, "nodes": long}))) == 20_001
