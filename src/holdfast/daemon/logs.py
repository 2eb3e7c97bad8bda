"""The log: lines for people, or JSON lines, on the standard error stream.

Whoever logs puts a record into a queue and goes on; one thread formats, hides secrets and writes. So neither a slow terminal nor a full
pipe stops the event loop. If the queue is full, lines are dropped, and a line says how many.

Fields of a record are those of `extra={"fields": {...}}`. The request that a line belongs to is known by `REQUEST_ID`.
"""

import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Final, Self, TextIO

from holdfast.daemon._masking import masked

REQUEST_ID: Final[ContextVar[str]] = ContextVar("holdfast_request_id", default="")
"""The id of the request that is being answered, which all lines about it have."""

_LONGEST: Final = 8_192
_ROOM: Final = 10_000
_AT_ONCE: Final = 200
_LAST_WORDS_S: Final = 2.0
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_access: Final = logging.getLogger("holdfast.access")


def log_request(
    *, request_id: str, method: str, route: str, status: int, duration_ms: float, token: str | None = None, **more: Any
) -> None:
    """Logs an answered request. `route` is its pattern, such as /sessions/{id}, and `token` the id of a token."""
    if _access.isEnabledFor(logging.INFO):
        record = logging.LogRecord("holdfast.access", logging.INFO, "", 0, "request", None, None)
        fields = {"request_id": request_id, "method": method, "route": route, "status": status}
        record.fields = {**fields, "duration_ms": round(duration_ms, 3), "token": token, **more}
        _access.handle(record)


class Logs:
    """Takes over the log of the process, from `start` to `stop`, which puts everything back as it was."""

    def __init__(self, level: str = "info", form: str = "text", *, access: bool = True, stream: TextIO | None = None) -> None:
        self._level, self._access = level, access
        lines: queue.Queue[logging.LogRecord | None] = queue.Queue(_ROOM)
        self._handler = _Queued(lines)
        self._writer = _Writer(lines, stream or sys.stderr, json_line if form == "json" else text_line, self._handler)
        self._before: list[tuple[logging.Logger, int, list[logging.Handler]]] = []

    def start(self) -> Self:
        for name in (None, "holdfast", "holdfast.access", "uvicorn"):
            logger = logging.getLogger(name)
            self._before.append((logger, logger.level, logger.handlers[:]))
        root = logging.getLogger()
        root.handlers = [self._handler]
        root.setLevel(logging.WARNING)
        self.set_level(self._level)
        self._writer.start()
        return self

    def set_level(self, level: str) -> None:
        """Says from now on what is logged: debug, info, warning or error."""
        number = getattr(logging, level.upper())
        logging.getLogger("holdfast").setLevel(number)
        logging.getLogger("uvicorn").setLevel(logging.INFO if number == logging.DEBUG else logging.ERROR)
        _access.setLevel(logging.NOTSET if self._access else logging.WARNING)

    def stop(self) -> None:
        """Writes what is left, unless nobody reads it, and gives the log back."""
        for logger, level, handlers in self._before:
            logger.setLevel(level)
            logger.handlers = handlers
        self._before.clear()
        self._writer.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()


class _Queued(logging.Handler):
    """Puts records into the queue, in the words that they have now."""

    def __init__(self, lines: "queue.Queue[logging.LogRecord | None]") -> None:
        super().__init__()
        self._lines = lines
        self.dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        try:
            record.message = record.getMessage()
        except Exception as error:  # noqa: BLE001 - anything may be wrong with the arguments of a call that logs
            record.message = f"{record.msg} (cannot be formatted: {type(error).__name__})"
        if record.exc_info and not record.exc_text:
            record.exc_text = _plain.formatException(record.exc_info)
        record.request_id = REQUEST_ID.get()
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def createLock(self) -> None:  # noqa: N802 - the name is logging's
        self.lock = None  # the queue has its own


_plain: Final = logging.Formatter()


class _Writer(threading.Thread):
    """Writes what is in the queue."""

    def __init__(self, lines: "queue.Queue[logging.LogRecord | None]", stream: TextIO, line: Any, handler: _Queued) -> None:
        super().__init__(name="holdfast-log", daemon=True)
        self._lines, self._stream, self._line, self._handler = lines, stream, line, handler

    def run(self) -> None:
        going = True
        while going:
            records = [self._lines.get()]
            while len(records) < _AT_ONCE and not self._lines.empty():
                records.append(self._lines.get_nowait())
            going = None not in records
            text = [self._line(record) for record in records if record is not None]
            dropped, self._handler.dropped = self._handler.dropped, 0
            if dropped:
                text.append(self._line(_told(f"{dropped} lines were dropped: the log is not read fast enough")))
            try:
                self._stream.write("".join(text))
                self._stream.flush()
            except (OSError, ValueError):  # nobody reads it any more
                continue

    def stop(self) -> None:
        try:
            self._lines.put(None, timeout=_LAST_WORDS_S)
        except queue.Full:
            return
        self.join(_LAST_WORDS_S)


def _told(message: str) -> logging.LogRecord:
    record = logging.LogRecord("holdfast.daemon", logging.WARNING, "", 0, message, None, None)
    record.message = message
    return record


# ---- lines -------------------------------------------------------------------------------------------------------------------------


def json_line(record: logging.LogRecord) -> str:
    """A record as one line of JSON."""
    line = {
        "time": _time(record),
        "level": record.levelname.lower(),
        "logger": record.name,
        "message": masked(_short(record.message)),
    }
    line |= {name: _safe(value) for name, value in _fields(record).items()}
    if record.exc_text:
        line["exception"] = masked(record.exc_text)
    return json.dumps(line) + "\n"


def text_line(record: logging.LogRecord) -> str:
    """A record as a line for people; only what was raised has lines of its own."""
    words = [f"{_time(record)} {record.levelname:<7} {record.name}: {_short(record.message)}"]
    words += [f"{name}={_word(value)}" for name, value in _fields(record).items() if value is not None]
    line = masked(" ".join(words)).translate(_CONTROL)
    if record.exc_text:
        below = masked(record.exc_text).split("\n")
        line = "\n    ".join([line, *(one.translate(_CONTROL) for one in below)])
    return line + "\n"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    request_id = getattr(record, "request_id", "")
    return {"request_id": request_id, **fields} if request_id else dict(fields)


def _safe(value: Any) -> Any:
    """A value that JSON has, without secrets, however deep they are."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {masked(str(name)): _safe(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_safe(one) for one in value]
    return masked(_short(str(value)))


def _word(value: Any) -> str:
    text = _short(str(value))
    return json.dumps(text) if not text or any(letter in text for letter in ' "=') else text


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _time(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
