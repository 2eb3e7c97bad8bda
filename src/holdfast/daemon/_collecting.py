"""Garbage collection that does not stop all threads for long.

A collection looks at every object that is young, with the interpreter locked. Scripts that say much make very many objects which live for
a moment and are in no cycle, and a collection in that moment takes longer than many requests. So the collector is not started by the number
of new objects, but from time to time, when there are few.
"""

import gc
import threading
from typing import Final

_PAUSE_S: Final = 0.25
_FEW: Final = 100_000
_MANY: Final = 400_000
"""More new objects than that are not a moment's."""
_WORTH: Final = 5_000
"""Fewer new objects than that are not worth a look."""
_MIDDLE, _FULL = 10, 400
"""Of so many collections one looks at older objects too, and one at all."""


class Collector:
    """Collects garbage in place of the interpreter."""

    def __init__(self) -> None:
        self._count = 0

    def start(self) -> None:
        """Takes over. What is loaded by now stays, so no collection looks at it again."""
        gc.collect()
        gc.freeze()
        gc.disable()
        threading.Thread(target=self._run, name="holdfast-collector", daemon=True).start()

    def look(self) -> bool:
        """Collects if this is a good moment; says whether it was."""
        young = gc.get_count()[0]
        if young < _WORTH or _FEW < young < _MANY:
            return False
        self._count += 1
        gc.collect(2 if self._count % _FULL == 0 else 1 if self._count % _MIDDLE == 0 else 0)
        return True

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(_PAUSE_S):
            self.look()
