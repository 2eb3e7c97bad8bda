"""Python threads that are busy, for measuring and testing what holds in spite of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def busy_threads(number: int) -> Iterator[None]:
    """Keeps this many threads spinning, each wanting the interpreter lock all the time."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
