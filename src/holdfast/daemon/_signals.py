"""What the system tells the process, and what the process tells the system."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType


@contextmanager
def handled(handlers: Mapping[str, Callable[[], None]]) -> Iterator[None]:
    """Calls these on the loop for signals by name. Those that the system does not have never come; nor do any to another thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    known = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.getsignal(number) for number in known}
    for number, handler in known.items():
        try:
            loop.add_signal_handler(number, handler)
        except NotImplementedError:  # Windows
            signal.signal(number, _calling(loop, handler))
    try:
        yield
    finally:
        for number, handler_before in before.items():
            with suppress(NotImplementedError):
                loop.remove_signal_handler(number)
            if handler_before is not None:
                signal.signal(number, handler_before)


def _calling(loop: asyncio.AbstractEventLoop, handler: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
    def called(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(handler)

    return called


def notify(state: str) -> None:
    """Tells systemd how things are (`READY=1`), if it has asked to be told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.connect(f"\0{address[1:]}" if address[0] == "@" else address)
        told.send(state.encode())
