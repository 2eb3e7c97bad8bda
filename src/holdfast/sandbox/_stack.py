"""The stack of the calling thread, and whether a guest may use it.

WebAssembly runs on the stack of the thread that calls it. Wasmtime stops a guest that uses more than it may, but does not know where the
thread's stack ends: on a thread with a small one (`threading.stack_size`, `ulimit -s`) a deep recursion would end the process.
"""

import ctypes
import sys
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from holdfast.sandbox._errors import SandboxError

_T = TypeVar("_T")

NATIVE_STACK: Final = 5 << 20
"""What a guest may use. Threads have 8 MB by default; the guests' own limits are reached before."""
RESERVE: Final = 512 << 10
"""What the host needs besides, for callbacks."""


def stack_size() -> int | None:
    """The size of this thread's stack; None where the system does not tell."""
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None)
    attributes = ctypes.create_string_buffer(256)
    low, size = ctypes.c_void_p(), ctypes.c_size_t()
    library.pthread_self.restype = ctypes.c_void_p
    if library.pthread_getattr_np(ctypes.c_void_p(library.pthread_self()), attributes):
        return None
    library.pthread_attr_getstack(attributes, ctypes.byref(low), ctypes.byref(size))
    library.pthread_attr_destroy(attributes)
    return size.value


def has_room() -> bool:
    """Whether a guest may run on a thread like this one, if nothing else does."""
    size = stack_size()
    return size is None or size >= NATIVE_STACK + RESERVE


def on_a_thread_of_its_own(work: Callable[[], _T], stop: Callable[[], None]) -> _T:
    """Does `work` on a new thread, and gives or raises what it does: for guests inside guests, and for small stacks.

    When the wait is interrupted, `stop` must end the work: the guest is not to be touched before that.
    """
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            if not has_room():
                raise SandboxError(f"threads need a stack of {(NATIVE_STACK + RESERVE) // 1024} KB to run a guest")
            results.append(work())
        except BaseException as error:  # noqa: BLE001  raised again by the caller
            errors.append(error)
        finally:
            done.set()

    done = threading.Event()  # an interrupted join would say that the thread has ended
    threading.Thread(target=run, name="holdfast-guest").start()
    try:
        done.wait()
    except BaseException:
        stop()
        done.wait()
        raise
    if errors:
        raise errors[0]
    return results[0]
