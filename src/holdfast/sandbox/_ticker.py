"""Ticks of an engine's epoch, by which running guests notice that time passes.

A thread in Python needs the interpreter lock for every tick, so four busy Python threads stretched a limit of 200 ms to two
seconds. On Linux a POSIX timer therefore calls wasmtime's own function on a thread of the C library, without any lock. The timer
costs about 2% of a core, so it runs only while guests do: it is armed by the first step, and a caretaker disarms it after a
quarter of a second without one.
"""

import ctypes
import sys
import threading
import weakref
from typing import Final, Protocol

from wasmtime import Engine, _ffi

from holdfast.sandbox._errors import EngineClosed

TICK_MS: Final = 2
_IDLE_SECONDS: Final = 0.25
_SWITCH_SECONDS: Final = 0.001
_SIGEV_THREAD: Final = 2
_CLOCK_MONOTONIC: Final = 1


class _Source(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def close(self) -> None: ...


class Ticker:
    """Ticks while a step runs, and for a short time after."""

    def __init__(self, engine: Engine, *, native: bool = True) -> None:
        self._engine = engine
        self._source: _Source = _source(engine, native)
        self._lock = threading.Lock()
        self._steps: set[object] = set()
        self._used = self._armed = self._closed = False
        self._usual = 0.0

    def begin(self, step: object) -> None:
        """A step begins. It is noted before the look at `_armed`; `rest` looks in the other order, so one sees the other."""
        self._steps.add(step)
        self._used = True
        if not self._armed:
            self._arm(step)

    def end(self, step: object) -> None:
        """A step has ended."""
        self._steps.discard(step)

    def _arm(self, step: object = None) -> None:
        with self._lock:
            if self._closed:
                self._steps.discard(step)  # it does not begin, so it will not end
                raise EngineClosed
            if not self._armed:
                self._armed = True
                self._source.start()
                self._hurry()
                threading.Thread(target=_care, args=(weakref.ref(self),), name="holdfast-ticker", daemon=True).start()

    def rest(self) -> bool:
        """Stops ticking if no step runs and none has begun since the last look; says whether it has stopped."""
        with self._lock:
            if self._closed:
                return True
            if self._steps or self._used:
                self._used = False
                return False
            self._armed = False
            self._source.stop()
            if self._steps:  # one has begun meanwhile, and may have seen it armed
                self._armed = True
                self._source.start()
            else:
                self._calm()
            return not self._armed

    def _hurry(self) -> None:
        """Lets threads that want the interpreter lock ask for it sooner.

        A guest that is due needs the lock twice before its step is over, and four busy threads keep it for 20 ms each time.
        """
        usual = sys.getswitchinterval()
        if usual > _SWITCH_SECONDS:
            self._usual = usual
            sys.setswitchinterval(_SWITCH_SECONDS)

    def _calm(self) -> None:
        """Back to the usual, unless somebody has changed it in between."""
        if self._usual and abs(sys.getswitchinterval() - _SWITCH_SECONDS) < 1e-9:
            sys.setswitchinterval(self._usual)
        self._usual = 0.0

    def close(self) -> None:
        """Stops for good."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._armed = False
                self._calm()
                self._source.stop()
                self._source.close()

    def __del__(self) -> None:
        self.close()

    def running(self) -> list[object]:
        """The steps that run now."""
        return list(self._steps)

    def forked(self) -> None:
        """In a child process neither timers nor threads of the parent exist.

        The C library may not be able to make new timers there either, if its own thread was busy with one when the process was forked.
        """
        self._lock = threading.Lock()
        self._armed = False
        self._source = _Thread(self._engine)
        if self._steps and not self._closed:
            self._arm()


def _care(ticker: "weakref.ref[Ticker]") -> None:
    """Disarms an idle ticker; holds it only while it looks, so that it can be collected."""
    pause = threading.Event()
    while True:
        pause.wait(_IDLE_SECONDS)
        alive = ticker()
        if alive is None or alive.rest():
            return
        del alive


def _source(engine: Engine, native: bool) -> _Source:
    if native:
        try:
            return _Timer(engine)
        except (OSError, AttributeError):
            pass
    return _Thread(engine)


class _Sigevent(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("function", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("padding", ctypes.c_char * 64),
    )


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class _Timer:
    """A POSIX timer whose notification is wasmtime's own increment of the epoch.

    A tick is a thread that the C library starts, and nobody can say when the last of them has run: not after the timer was deleted,
    and not when the interpreter ends. So an engine that has ticked is never freed.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine, self._kept = engine, False
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer = ctypes.c_void_p()
        event = _Sigevent(
            value=ctypes.cast(self._engine.ptr(), ctypes.c_void_p).value,
            notify=_SIGEV_THREAD,
            function=ctypes.cast(_ffi.dll.wasmtime_engine_increment_epoch, ctypes.c_void_p).value,
        )
        if self._libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(self._timer)):
            raise OSError(ctypes.get_errno(), "no timer")

    def start(self) -> None:
        if not self._kept:
            self._kept = True
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._engine))
        self._set(TICK_MS)

    def stop(self) -> None:
        self._set(0)

    def _set(self, milliseconds: int) -> None:
        period = _Timespec(0, milliseconds * 1_000_000)
        self._libc.timer_settime(self._timer, 0, ctypes.byref(_Itimerspec(period, period)), None)

    def close(self) -> None:
        self._libc.timer_delete(self._timer)


class _Thread:
    """A thread in Python, where there is no such timer. Limits then hold less tightly while Python is busy."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()

    def start(self) -> None:
        self._stop = threading.Event()
        threading.Thread(target=_tick, args=(self._engine, self._stop), name="holdfast-epoch", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        self._stop.set()


def _tick(engine: Engine, stop: threading.Event) -> None:
    while not stop.wait(TICK_MS / 1000):
        engine.increment_epoch()
