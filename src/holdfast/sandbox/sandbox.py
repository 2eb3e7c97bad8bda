"""A sandbox: one running guest instance, driven a step at a time.

Theory of operation
-------------------
A step writes one message into the guest's memory, calls it once, and reads one message back; see guests/common/abi.h. The guest
runs until its script has ended or waits for something. At rest its memory is its whole state, which `freeze` takes.

Nothing that goes wrong inside is branched on inside. When a limit is exceeded, when `cancel` was called, or when a host function
raised something unforeseen, the guest is stopped where it stands, and what is left of it is in doubt. So it is thrown away: the
sandbox is closed, and whoever wants to go on thaws the last image. The events until then are read from the memory of the dead.

Time is looked at by the guest itself: the engine's ticker counts, and when a step's earliest limit is due the guest calls `look`,
on the thread that runs it.
"""

import ctypes
import math
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from holdfast.domain import Breach, Limit, Limits
from holdfast.sandbox import _records
from holdfast.sandbox._crossing import Instance, Trapped
from holdfast.sandbox._errors import GuestFault, SandboxBusy, SandboxClosed
from holdfast.sandbox._memory import Memory
from holdfast.sandbox._requests import encode_request
from holdfast.sandbox._stack import on_a_thread_of_its_own
from holdfast.sandbox._ticker import TICK_MS
from holdfast.sandbox.host import LARGEST_REQUEST, Host, too_large
from holdfast.sandbox.image import Image, Label
from holdfast.sandbox.jsontext import TooLarge
from holdfast.sandbox.steps import Breached, Call, Cancelled, Configure, Evaluate, Event, Outcome, Request, Resume, RunFile

if TYPE_CHECKING:
    from holdfast.sandbox.guest import Guest

_REPLY: Final = struct.Struct("<d")

_LOOK_TICKS: Final = 64
_LOOK_MS: Final = _LOOK_TICKS * TICK_MS
"""The longest that a guest runs without a look at `cancel`; cancelling hurries the clock by as much."""
_PACE_MS: Final = 16
"""The longest that a guest runs without asking its pacer, in two looks."""
_MUCH_OUTPUT: Final = 64 << 10
_MEGABYTE: Final = 1 << 20
_LONG: Final = 1 << 16

_BREACHES: Final = {
    1: (Limit.MEMORY, _MEGABYTE),
    2: (Limit.STACK, 1024),
    3: (Limit.EVENTS, 1),
    4: (Limit.OUTPUT, 1024),
    5: (Limit.SUSPENSIONS, 1),
}


def _ticks(left: float) -> int:
    """Ticks until the next look, when this many milliseconds are left: half of them, since a busy system may lose ticks."""
    return int(left / (2 * TICK_MS)) + 1


def _inside(instance: Instance, address: int, size: int) -> int:
    """The address in this process of a part of a guest's memory.

    Every pointer and length of a guest passes here: an image may hold anything, and so may a guest whose memory was tampered with.
    """
    if address < 0 or size < 0 or address + size > instance.size():
        raise GuestFault("the guest refers to what is not its memory")
    return instance.base + address


def _view(instance: Instance, address: int, size: int) -> memoryview:
    """Memory of a guest, as long as its instance lives."""
    return memoryview((ctypes.c_char * size).from_address(_inside(instance, address, size))).cast("B")


class Pacer(Protocol):
    """Decides when a step that runs may go on."""

    def pace(self, *, calling: bool = False, long: bool = False) -> float:
        """Called on the thread of the step when the guest looks at the clock, before a host call, and before what is known to take long.
        May sleep; gives for how long.
        """

    def computing(self) -> None:
        """The host call computes for long, perhaps elsewhere."""

    def returned(self) -> None:
        """The host call is over."""

    def wake(self) -> None:
        """Ends the sleep: the step was told to stop. Called on any thread."""


class Sandbox:
    """One running guest. Made by `Template.create` and `Template.thaw`; one thread at a time may use it.

    It is a context manager: leaving it closes it.
    """

    def __init__(
        self,
        guest: "Guest",
        instance: Instance,
        limits: Limits,
        host: Host,
        image: Image | None,
        seed: int | None,
        zone: str | None,
    ) -> None:
        self.guest, self.limits, self.host = guest, limits, host
        self._instance: Instance | None = instance
        self._seed, self._zone = seed, zone
        self._memory = None if image is None else Memory(instance, image, guest.engine.page_map)
        self._lock = threading.Lock()
        self._cancelled = False
        self._stopped: Limit | None = None
        self._raised: BaseException | None = None
        self._hook = sys.unraisablehook
        self._kept = b""
        self._now = 0.0
        self._started = self._started_cpu = 0.0
        self._untimed = False
        self.pacer: Pacer | None = None
        """Who decides when a step goes on that takes long. The time that it makes the step wait is not wall time of the step."""
        self._first_look = _ticks(min(limits.wall_ms or _LOOK_MS, limits.cpu_ms or _LOOK_MS, _LOOK_MS))
        try:
            control = guest.control(instance)
            self._input = _view(instance, control.input, control.input_capacity)
            self._output = _view(instance, control.output, control.output_capacity)
        except GuestFault:
            self._close()
            raise
        self._output_at = control.output

    # ---- steps ----------------------------------------------------------------------------------------------------------

    def step(self, request: Request, *, now: float | None = None, seed: int | None = None, zone: str | None = None) -> Outcome:
        """Does what is asked until the script ends or waits.

        `now` is the time in milliseconds, by default the system's; it stands still during the step. `seed` starts the random
        numbers anew, `zone` sets the local time zone; both stay until they are set again. Raises `RequestRefused` if the request
        makes no sense now; the script has not been touched then.
        """
        if not self._lock.acquire(blocking=False):
            raise SandboxBusy
        try:
            instance = self._instance
            if instance is None:
                raise SandboxClosed
            moment = time.time() * 1000 if now is None else now
            running = self.guest.engine.running
            if running.host is None and running.has_room:
                return self._step(instance, request, moment, seed, zone)
            return on_a_thread_of_its_own(lambda: self._step(instance, request, moment, seed, zone), self.cancel)
        finally:
            self._lock.release()

    def evaluate(self, source: str | bytes, filename: str = "<repl>", *, now: float | None = None) -> Outcome:
        """Runs a snippet. See `Evaluate`."""
        return self.step(Evaluate(source, filename), now=now)

    def run_file(
        self,
        source: str | bytes,
        filename: str,
        args: Any = None,
        env: Mapping[str, Any] | None = None,
        *,
        now: float | None = None,
    ) -> Outcome:
        """Runs a file. See `RunFile`."""
        return self.step(RunFile(source, filename, args, env), now=now)

    def call(self, function: str, *args: Any, now: float | None = None) -> Outcome:
        """Calls a global function. See `Call`."""
        return self.step(Call(function, args), now=now)

    def resume(self, answers: dict[int, Any] | None = None, *, now: float | None = None) -> Outcome:
        """Gives answers to open queries. See `Resume`."""
        return self.step(Resume(answers or {}), now=now)

    def cancel(self) -> None:
        """Stops the present or the next step, from any thread. Its outcome is `Cancelled`."""
        self._cancelled = True
        engine = self.guest.engine.wasm
        for _ in range(_LOOK_TICKS):
            engine.increment_epoch()
        pacer = self.pacer
        if pacer is not None:
            pacer.wake()

    def untimed(self) -> None:
        """Limits of time do not count until `timed` is called: for what is done again and has been within them before."""
        self._untimed = True

    def timed(self) -> None:
        """Limits of time count from now on. May be called by a host function, while a step runs."""
        if self._untimed:
            self._untimed = False
            self._started, self._started_cpu = time.monotonic(), time.thread_time()

    def _step(self, instance: Instance, request: Request, now: float, seed: int | None, zone: str | None) -> Outcome:
        if self._cancelled:
            self._close()
            return Cancelled()
        engine = self.guest.engine
        seed = self._seed if seed is None else seed
        zone = self._zone if zone is None else zone
        message = encode_request(request, self.limits, now, seed, zone)
        length = len(message)
        self._now = now
        self._stopped = self._raised = None
        running, ticker = engine.running, engine.ticker
        self._started = time.monotonic()
        if self.limits.cpu_ms:
            self._started_cpu = time.thread_time()
        ticker.begin(self)
        running.host = self
        if running.is_main:
            self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        try:
            instance.arm(self._first_look if self.pacer is None else min(self._first_look, _ticks(_PACE_MS)))
            if length <= len(self._input):
                self._input[:length] = message
            else:
                ctypes.memmove(_inside(instance, instance.call("hf_input", length), length), message, length)
            packed = instance.step(length)
        except Trapped as trapped:
            return self._dead(instance, trapped)
        except GuestFault:
            self._close()
            raise
        finally:
            running.host = None
            if running.is_main:
                sys.unraisablehook = self._hook
            ticker.end(self)
        self._seed = self._zone = None
        self._kept = b""
        self._pace_output(packed & 0xFFFFFFFF)
        try:
            outcome = _records.outcome(self._take_output(instance, packed >> 32, packed & 0xFFFFFFFF))
        except GuestFault:
            self._close()
            raise
        except TooLarge:
            self._close()
            return Breached(Breach(Limit.OUTPUT, _records.BOUNDS.size // 1024, (packed & 0xFFFFFFFF) / 1024))
        if self.cancelled:  # by a host function, or at the last moment
            self._close()
            return Cancelled(outcome.events)
        is_long = length > _LONG or packed & 0xFFFFFFFF > _LONG
        if is_long and not self.look() and not self._cancelled:  # what we spent on long messages counts as well
            self._close()
            return self._over_time(outcome.events)
        return outcome

    def _pace_output(self, size: int) -> None:
        """Much output takes longer to be read than it took the script to write it, and all of it with the interpreter's lock."""
        if self.pacer is not None and size > _MUCH_OUTPUT:
            self._started += self.pacer.pace(long=True)

    def _take_output(self, instance: Instance, address: int, size: int) -> bytes:
        """The records of a step. They are zeroed, so that what a script said is in no image."""
        if size > _records.BOUNDS.size:
            raise TooLarge(f"{size} bytes of records")
        if address == self._output_at:
            output = self._output[:size]
            raw = output.tobytes()
            output[:] = bytes(len(output))
            return raw
        place = _inside(instance, address, size)
        raw = ctypes.string_at(place, size)
        ctypes.memset(place, 0, size)
        return raw

    def _dead(self, instance: Instance, trapped: Trapped) -> Outcome:
        """What became of a step that was stopped. The instance is read once more, then freed."""
        if isinstance(self._raised, GuestFault):
            self._close()
            raise self._raised
        try:
            control = self.guest.control(instance)
            place = _inside(instance, control.output, control.output_length)
            raw = ctypes.string_at(place, min(control.output_length, _records.BOUNDS.size + 1))
        finally:
            self._close()
        self._pace_output(len(raw))
        try:
            events = _records.events(raw)
        except TooLarge:
            events = ()
        if self._raised is not None:
            raise self._raised
        if self._cancelled:
            return Cancelled(events)
        limits = self.limits
        if self._stopped is not None:
            return self._over_time(events)
        if control.breach in _BREACHES:
            limit, unit = _BREACHES[control.breach]
            allowed = limits.mem_mb if limit is Limit.MEMORY else control.breach_allowed / unit
            return Breached(Breach(limit, allowed, control.breach_actual / unit), events)
        if trapped.stack:
            return Breached(Breach(Limit.STACK, limits.stack_kb, limits.stack_kb), events)
        raise GuestFault

    def _over_time(self, events: tuple[Event, ...]) -> Breached:
        limits = self.limits
        if self._stopped is Limit.WALL:
            return Breached(Breach(Limit.WALL, limits.wall_ms, (time.monotonic() - self._started) * 1000), events)
        return Breached(Breach(Limit.CPU, limits.cpu_ms, (time.thread_time() - self._started_cpu) * 1000), events)

    # ---- called while a step runs ------------------------------------------------------------------------------------------

    def failed(self, error: BaseException) -> None:
        """Something was raised while the guest waited for us: the step raises it."""
        self._raised = error

    def _unraisable(self, lost: "sys.UnraisableHookArgs") -> None:
        """An interrupt is raised in the first line of a callback, where nothing can catch it; ctypes reports it here."""
        if lost.exc_value is not None and getattr(lost.object, "__module__", "").startswith("holdfast."):
            self.failed(lost.exc_value)
        else:
            self._hook(lost)

    def look(self) -> int:
        """Ticks until the clock must be looked at again, or 0 if the guest must stop now."""
        left = float(_LOOK_MS)
        if self.pacer is not None:
            self._started += self.pacer.pace()
            left = float(_PACE_MS)
        if self._cancelled or self._raised is not None:
            return 0
        limits = self.limits
        if self._untimed:
            return _ticks(left)
        if limits.wall_ms:
            wall = limits.wall_ms - (time.monotonic() - self._started) * 1000
            if wall <= 0:
                self._stopped = Limit.WALL
                return 0
            left = min(left, wall)
        if limits.cpu_ms:
            cpu = limits.cpu_ms - (time.thread_time() - self._started_cpu) * 1000
            if cpu <= 0:
                self._stopped = Limit.CPU
                return 0
            left = min(left, cpu)
        return _ticks(left)

    def host_call(self, operation: int, request: int, length: int, reply: int, capacity: int) -> int:
        """The guest's import `call`: one request to the host while a step runs."""
        instance = self._instance
        assert instance is not None
        if self.pacer is not None:
            self._started += self.pacer.pace(calling=True)
        try:
            place, room = _inside(instance, request, length), _inside(instance, reply, capacity)
            if length > LARGEST_REQUEST:  # not even copied
                answer = self.host.refusal(too_large(length))
            else:
                answer, self._now = self.host.answer(operation, ctypes.string_at(place, length), self._now)
        except BaseException as error:
            self._raised = error
            raise
        finally:
            if self.pacer is not None:
                self.pacer.returned()
        whole = _REPLY.pack(self._now) + answer
        if len(whole) <= capacity:
            ctypes.memmove(room, whole, len(whole))
        else:
            self._kept = whole
        return len(whole)

    def host_take(self, reply: int, length: int) -> None:
        """The guest's import `take`: the reply that did not fit."""
        instance, kept = self._instance, self._kept
        assert instance is not None
        self._kept = b""
        try:
            if length != len(kept):
                raise GuestFault("the guest takes a reply that it was not given")
            ctypes.memmove(_inside(instance, reply, length), kept, length)
        except BaseException as error:
            self._raised = error
            raise

    # ---- at rest -----------------------------------------------------------------------------------------------------------

    def freeze(self, label: Label | None = None) -> Image:
        """The state as an image. The sandbox goes on as before."""
        if not self._lock.acquire(blocking=False):
            raise SandboxBusy
        try:
            if self._instance is None or self._memory is None:
                raise SandboxClosed
            if self._seed is not None or self._zone is not None:  # no step has taken them yet; they belong to the state
                self._step(self._instance, Configure(), 0.0, None, None)
            return self._memory.freeze(label or Label())
        finally:
            self._lock.release()

    def content(self) -> bytes:
        """The whole memory."""
        with self._lock_resting():
            if self._instance is None:
                raise SandboxClosed
            return ctypes.string_at(self._instance.base, self._instance.size())

    @contextmanager
    def _lock_resting(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise SandboxBusy
        try:
            yield
        finally:
            self._lock.release()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    def time_left(self, *, computing: bool) -> float:
        """Seconds until the step that runs exceeds a limit of time. For host functions that take long: they are not interrupted.

        With `computing` they take the thread's own time, so that its limit counts too. To be called on the thread that runs the step.
        """
        limits, left = self.limits, math.inf
        if computing and self.pacer is not None:
            self.pacer.computing()
        if self._untimed:
            return left
        if limits.wall_ms:
            left = limits.wall_ms / 1000 - (time.monotonic() - self._started)
        if limits.cpu_ms and computing:
            left = min(left, limits.cpu_ms / 1000 - (time.thread_time() - self._started_cpu))
        return left

    def charge(self, seconds: float) -> None:
        """Count time that another process has computed for a host function as time that the step has computed."""
        self._started_cpu -= seconds

    @property
    def memory(self) -> int:
        """The size of the memory in bytes. It never shrinks."""
        if self._instance is None:
            raise SandboxClosed
        return self._instance.size()

    @property
    def closed(self) -> bool:
        """Whether the sandbox is gone: closed, or stopped by a limit."""
        return self._instance is None

    def close(self) -> None:
        """Frees the instance. Closing twice is fine; closing while a step runs is not."""
        with self._lock_resting():
            self._close()

    def _close(self) -> None:
        instance, self._instance, self._memory = self._instance, None, None
        if instance is not None:
            instance.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._close()
