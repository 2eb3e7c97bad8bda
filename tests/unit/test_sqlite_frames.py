"""Helper processes of SQLite, seen from the daemon: what it believes of them, how their calls end, and which system calls they have."""

import json
import socket
import struct
from functools import partial

import pytest

from holdfast.capabilities.database.helpers import Helper, Helpers, Killed, Left
from holdfast.capabilities.database.sqlite_helper import wire
from holdfast.capabilities.database.sqlite_helper.confinement import filter_program
from holdfast.domain import Principal


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xffD",
        wire.frame(b"D", b"{}"),
        wire.frame(b"D", b"[1]"),
        wire.frame(b"D", b"[" * 100_000),
        wire.frame(b"V", b"[{}]"),
        wire.frame(b"V", b"[[1]]"),
        wire.frame(b"V", b'[["?"]]'),
        wire.frame(b"T", b"\xff"),
        wire.frame(b"V", json.dumps([1] * 101).encode()),
        wire.frame(b"B", bytes(900)) * 3,
        wire.frame(b"D", b"[1e" + b"9" * 500 + b"x]"),
    ],
)
def test_a_helper_that_lies_is_not_believed(data: bytes) -> None:
    decoder = wire.Decoder((100, 200_000 if len(data) > 9_999 else 2_000))
    decoder.feed(data)
    with pytest.raises(wire.Malformed):
        decoder.next()


class Played(Helpers):
    """Helpers of which one is a socket of the test. It says something when it is killed."""

    def __init__(self, last: bytes) -> None:
        super().__init__()
        self.ours, self.theirs = socket.socketpair()
        self._last = last
        self.helper = Helper(self, self.ours, 1, Principal(), 1 << 20)

    def tell(self, **request: int) -> None:
        if "kill" in request and self.theirs.fileno() >= 0:
            self.theirs.sendall(self._last)
            self.theirs.close()


DONE = wire.Encoder().end(wire.DONE, 1, 2, None, False, 3)


@pytest.mark.parametrize(
    ("first", "last", "ends"),
    [
        (b"", b"", "SQL_TIMEOUT"),
        (b"", DONE, "done"),
        (b"", wire.frame(wire.COMMITS), "SQL_TIMEOUT uncertain"),
        (wire.frame(wire.COMMITS), b"", "SQL_TIMEOUT uncertain"),
        (wire.frame(wire.COMMITS), DONE, "done"),
        (wire.frame(wire.LEAVES), b"", "left"),
        (wire.frame(b"?", b"{}"), b"", "DATABASE_FAILED"),
        (b"\xff" * 9, b"", "DATABASE_FAILED"),
    ],
)
def test_how_a_statement_ends_whose_helper_is_killed(first: bytes, last: bytes, ends: str) -> None:
    """An answer counts, however late it comes. Without one, what had begun to be committed is not known."""
    played = Played(last)
    played.theirs.sendall(first)
    try:
        said = "done" if played.helper.call([b"x"], 0.05, bool).kind == wire.DONE else "?"
    except Killed as killed:
        said = killed.code + (" uncertain" if killed.uncertain else "")
    except Left:
        said = "left"
    assert said == ends
    assert not played.helper.look()
    with pytest.raises(Left):
        played.helper.call([b"x"], 1, bool)
    played.theirs.close()


@pytest.mark.parametrize(
    ("machine", "architecture", "allowed", "refused", "mapping"),
    [
        ("x86_64", 0xC000003E, [0, 1, 17, 45, 257, 439], [41, 53, 56, 57, 59, 62, 101, 157, 322, 425, 1 << 30], 9),
        ("aarch64", 0xC00000B7, [56, 63, 64, 67, 207, 439], [117, 129, 167, 198, 199, 220, 221, 281, 425], 222),
    ],
)
def test_the_filter_of_each_machine(
    machine: str, architecture: int, allowed: list[int], refused: list[int], mapping: int
) -> None:
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    said = partial(verdict, program, architecture)
    assert {said(number) for number in allowed} == {0x7FFF0000}
    assert {said(number) for number in refused} == {0x00050001}
    assert [said(mapping, protection) for protection in (1, 3, 4, 7)] == [0x7FFF0000, 0x7FFF0000, 0x00050001, 0x00050001]
    assert verdict(program, 0x40000003, allowed[0]) == 0x80000000


def verdict(program: list[tuple[int, ...]], architecture: int, number: int, protection: int = 0) -> int:
    """What the kernel would do, by the four instructions that the filter has."""
    call = {0: number, 4: architecture, 32: protection}
    at = loaded = 0
    while True:
        code, if_true, if_false, value = program[at]
        at += 1
        if code == 0x06:
            return value
        if code == 0x20:
            loaded = call[value]
        else:
            holds = loaded == value if code == 0x15 else bool(loaded & value)
            at += if_true if holds else if_false
