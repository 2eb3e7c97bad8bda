"""The log: secrets do not get into it, nobody can forge a line, and a reader that does not read stops nobody."""

import io
import json
import logging
import os
import threading
import time
from collections.abc import Callable

import pytest

from holdfast.daemon import REQUEST_ID, Logs, log_request
from holdfast.daemon._masking import masked

log = logging.getLogger("holdfast.test")
SECRET = "hf_" + "aB3_-" * 9


def written(form: str, say: Callable[[], None], level: str = "info", **options: bool) -> str:
    stream = io.StringIO()
    with Logs(level, form, stream=stream, **options):
        say()
    return stream.getvalue()


def boom() -> None:
    try:
        raise ValueError(f"Bearer {SECRET}")
    except ValueError:
        log.exception("failed")


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize(
    "say",
    [
        lambda: log.info("Authorization: Bearer %s", SECRET),
        lambda: log.info("authorization: bearer   abc.def~ghi+/="),
        lambda: log.info({"headers": {"authorization": f"Bearer {SECRET}"}}),
        lambda: log.info("headers %r", [(b"authorization", b"Bearer " + SECRET.encode())]),
        lambda: log.info("opened", extra={"fields": {"store": "postgresql://ada:l0ve@db/x", "token": SECRET}}),
        lambda: log.info("connection to postgresql://ada:l0v:e/@s@db/x?password=abc.def failed"),
        lambda: log.info("conninfo host=db password='l0ve you' dbname=x; PGPASSWORD=l0ve"),
        lambda: log.info("odd", extra={"fields": {"given": {"token": SECRET}}}),
        lambda: log.info("odd", extra={"fields": {"given": OSError(f"Bearer {SECRET}")}}),
        boom,
    ],
)
def test_secrets_do_not_leave(form: str, say: Callable[[], None]) -> None:
    text = written(form, say)
    assert text.strip()
    for secret in (SECRET, SECRET[3:], "abc.def", "l0v", "you'"):
        assert secret not in text


def test_the_rest_is_left_alone() -> None:
    for text in (
        "http://127.0.0.1:3210/api/v1",
        "ada@example.org",
        "https://example.org/a:b",
        "the bearer: nobody",
        "hf_short",
    ):
        assert masked(text) == text


def test_hiding_takes_no_longer_for_texts_that_are_made_for_it() -> None:
    began = time.perf_counter()
    for text in ("://a:" * 20_000, "password" * 10_000, "bearer " * 10_000, "x" * 100_000, "authorization " * 10_000):
        masked(text)
    assert time.perf_counter() - began < 2


def test_requests_have_fields() -> None:
    def say() -> None:
        log_request(request_id="r-1", method="GET", route="/sessions/{id}", status=404, duration_ms=1.23456, token="t1")

    line = json.loads(written("json", say))
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info",
        "logger": "holdfast.access",
        "message": "request",
        "request_id": "r-1",
        "method": "GET",
        "route": "/sessions/{id}",
        "status": 404,
        "duration_ms": 1.235,
        "token": "t1",
    }
    assert "request request_id=r-1 method=GET route=/sessions/{id} status=404 duration_ms=1.235 token=t1" in written(
        "text", say
    )
    assert written("text", say, access=False) == ""
    assert written("text", say, level="warning") == ""


def test_lines_of_a_request_have_its_id() -> None:
    def say() -> None:
        kept = REQUEST_ID.set("r-7")
        log.info("inside")
        REQUEST_ID.reset(kept)
        log.info("outside")

    inside, outside = map(json.loads, written("json", say).splitlines())
    assert inside["request_id"] == "r-7"
    assert "request_id" not in outside


def test_nobody_can_forge_a_line() -> None:
    def say() -> None:
        log.info("path %s", "/x\n2026-01-01 INFO forged\r\x1b[31m\u2028", extra={"fields": {"name": "a b\nc"}})

    text = written("text", say)
    assert text.count("\n") == 1
    assert "\r" not in text
    assert "\x1b" not in text
    assert r"/x\x0a2026" in text
    assert len(written("json", say).splitlines()) == 1


def test_levels_can_be_changed() -> None:
    stream = io.StringIO()
    with Logs("warning", "text", stream=stream) as logs:
        log.info("one")
        logs.set_level("debug")
        log.debug("two")
        logs.set_level("error")
        log.warning("three")
    text = stream.getvalue()
    assert "two" in text
    assert "one" not in text
    assert "three" not in text


def test_a_bad_call_does_not_raise() -> None:
    text = written("text", lambda: log.info("%d", "no number"))
    assert "cannot be formatted" in text


def test_everything_is_put_back() -> None:
    root = logging.getLogger()
    before = (root.level, root.handlers[:], logging.getLogger("holdfast").level)
    written("text", lambda: log.info("x"))
    assert (root.level, root.handlers[:], logging.getLogger("holdfast").level) == before


def test_a_reader_that_does_not_read_stops_nobody() -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        logs = Logs("info", "text", stream=stream).start()
        for _ in range(12_000):  # which would never end if anybody waited for the reader
            log.info("x" * 100)
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.extend(iter(lambda: reader.read1(65536), b"")), daemon=True)
        thread.start()
        logs.stop()
        stream.close()
        thread.join(10)
    text = b"".join(got).decode()
    assert "lines were dropped" in text
    assert text.count("holdfast.test: x") > 1_000  # as many as there was time for


def test_a_reader_that_has_gone_stops_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    with Logs("info", "text", stream=stream):
        log.info("one")
        log.info("two")
    with pytest.raises(BrokenPipeError):
        stream.close()
