"""The way into a guest and back: the interface that both ways share.

`_unchecked` calls wasmtime's C API by pointers: a call costs about 1 us and an instance about 50 us. `_public` uses only the
documented Python API, costs several times that, and is there for the day when the C API changes. One test suite runs on both.

No instance is referred to by a callback: what is running is found by thread, so an instance is freed when it is closed.
"""

import threading
from typing import Final, Protocol

from holdfast.sandbox._stack import has_room
from holdfast.sandbox._ticker import TICK_MS

WASM_PAGE: Final = 65536
NEVER: Final = 1 << 40
"""A deadline, in ticks, that does not come."""
BOOT: Final = 30_000 // TICK_MS
"""A deadline, in ticks, for what runs in no step: starting a guest takes some milliseconds."""
TABLE_ELEMENTS: Final = 1 << 16
"""The most that the tables of a guest may hold. The guests have some thousand functions, and no table of theirs grows."""


class Trapped(Exception):
    """A call ended in a trap. `stack` says whether the native stack was exhausted."""

    def __init__(self, message: str, *, stack: bool) -> None:
        super().__init__(message)
        self.stack = stack


class Instance(Protocol):
    """One guest instance. `base` is the address of its linear memory, which never moves."""

    base: int

    def size(self) -> int:
        """Bytes of linear memory."""

    def grow_to(self, size: int) -> bool:
        """Grows the memory to at least this size, if the limit allows it."""

    def step(self, length: int) -> int:
        """Performs the request in the input buffer; gives address << 32 | length of the records."""

    def call(self, name: str, argument: int | None = None) -> int:
        """Calls another export, with one argument or none."""

    def arm(self, ticks: int) -> None:
        """Looks at the clock after this many ticks."""

    def close(self) -> None:
        """Frees the instance. It must not be used after that."""


class Crossing(Protocol):
    """Makes instances of one compiled module."""

    def instantiate(self, memory: int) -> Instance:
        """A new instance whose memory may grow to this many bytes."""


class Running(threading.local):
    """What the present thread is running, if anything: the callbacks of all instances look here."""

    host: "HostSide | None" = None

    def __init__(self) -> None:  # once for each thread
        self.has_room = has_room()
        self.is_main = threading.current_thread() is threading.main_thread()


class HostSide(Protocol):
    """What a running guest may call: its two imports, and the clock."""

    def host_call(self, operation: int, request: int, length: int, reply: int, capacity: int) -> int:
        """Does a request, writes the reply if it fits, and gives its length."""

    def host_take(self, reply: int, length: int) -> None:
        """Writes a reply that did not fit."""

    def failed(self, error: BaseException) -> None:
        """Keeps what was raised while the guest was waiting; the guest is stopped next."""

    def look(self) -> int:
        """Ticks until the next look at the clock, or 0 to stop the guest."""
