"""One daemon for one data directory."""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from holdfast.daemon._errors import AlreadyRunning, DaemonError
from holdfast.daemon._files import private_folder, take_lock

_NAME: Final = "daemon.lock"
_PAUSES_S: Final = (0.02, 0.05)  # whoever asks whether a daemon runs holds the lock for a moment


class InstanceLock:
    """Held while a daemon lives, and taken before it touches anything else.

    The lock is the system's, on an open file: it ends with the process, also by kill -9, so there is nothing to clean up and nothing to
    guess. The file has the owner's pid for people, and stays when the lock is given back: were it removed, two might each hold "the" file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle: int | None = None

    def take(self) -> None:
        """Raises AlreadyRunning, with the owner's pid, if another process has it, and DaemonError if the file cannot be used."""
        path = private_folder(self._folder) / _NAME
        try:
            handle = self._handle = self._taken(path)
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, f"{os.getpid()}\n".encode())
        except OSError as error:
            self.release()
            raise DaemonError(f"{_NAME} in the data directory cannot be used: {error.strerror}") from None

    def _taken(self, path: Path) -> int:
        for pause in (*_PAUSES_S, None):
            try:
                return take_lock(path, wait=False)
            except BlockingIOError:
                if pause is not None:
                    time.sleep(pause)
        raise AlreadyRunning(_pid_in(path))

    def release(self) -> None:
        """Gives it back. More often than once is fine."""
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                os.ftruncate(handle, 0)
            os.close(handle)

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def running_pid(folder: Path) -> int | None:
    """The daemon that has this data directory, or None. Nothing is made if nothing is there."""
    path = folder / _NAME
    if not path.is_file():
        return None
    try:
        os.close(take_lock(path, wait=False))
    except BlockingIOError:
        return _pid_in(path)
    except OSError:  # no daemon would take that for its lock
        return None
    return None


def _pid_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # it has only just been taken
        return None
