"""Third-party sources: fetched as archives, checked against their pinned hash, and unpacked as data.

`pip download` is not used because it runs the setup.py of what it fetches, which takes minutes and wants a compiler.
"""

import hashlib
import logging
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import httpx2
from unearth import Link, PackageFinder
from unearth.errors import UnpackError

from guests.build.cache import Cache
from guests.build.errors import BuildError
from guests.build.index import finders, pip_settings

ATTEMPTS = 3
ADVICE = "check the network and pip's index settings (python -m pip config list)"
FAILURES = (httpx2.HTTPError, httpx2.InvalidURL, UnpackError, OSError, ValueError)


@dataclass(frozen=True)
class Source:
    """A folder of a source distribution."""

    name: str
    version: str
    sha256: str
    folder: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def fetch(source: Source, cache: Cache) -> Path:
    """The archive, from the cache or from the user's package index."""
    return cache.entry("downloads", f"{source.sha256}.tar.gz", lambda path: _download(source, path))


def unpack(archive: Path, source: Source, target: Path) -> None:
    """Writes the source's folder, and nothing else of the archive, to `target`."""
    wanted = PurePosixPath(source.folder)
    found = False
    try:
        with tarfile.open(archive) as contents:
            for member in contents:
                inner = PurePosixPath(*PurePosixPath(member.name).parts[1:])  # without the archive's top folder
                if not member.isfile() or ".." in inner.parts or not inner.is_relative_to(wanted):
                    continue
                # Written by hand: the filters of tarfile are not in every Python 3.11.
                data = contents.extractfile(member)
                path = target / inner.relative_to(wanted)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data.read() if data else b"")
                found = True
    except (tarfile.TarError, OSError, EOFError) as error:
        raise BuildError(f"the archive of {source} cannot be unpacked: {error}") from error
    if not found:
        raise BuildError(f"the archive of {source} has no folder {source.folder}")


def verify(archive: Path, source: Source) -> None:
    """Refuses an archive that is not the one that was reviewed."""
    actual = hashlib.sha256(archive.read_bytes()).hexdigest()
    if actual != source.sha256:
        raise BuildError(
            f"the archive of {source} is refused: its SHA-256 is {actual}, and not {source.sha256} as pinned in guests/build/recipes.py"
        )


def _download(source: Source, path: Path) -> None:
    with finders(pip_settings()) as places, _warnings_of_unearth() as warnings:
        place, link = _locate(source, places, warnings)
        # The folder is unearth's to fill: it names the file as the index does.
        downloaded = _retry(source, lambda: place.download(link, path.parent))
        verify(downloaded, source)
        downloaded.rename(path)


def _locate(source: Source, places: Sequence[PackageFinder], warnings: list[str]) -> tuple[PackageFinder, Link]:
    """The first place that offers the archive; one that announces the pinned hash goes first."""
    offers: list[tuple[PackageFinder, Link]] = []
    failures: list[str] = []
    for place in places:
        try:
            matches = list(place.find_matches(f"{source.name}=={source.version}", allow_yanked=True))
        except FAILURES as error:
            failures.append(str(error) or type(error).__name__)
            continue
        for package in matches:
            announced = (package.link.hash_option or {}).get("sha256", [])
            if source.sha256 in announced:
                return place, package.link
            offers.append((place, package.link))
    if offers:
        return offers[0]
    reasons = "; ".join([*failures, *warnings]) or ("not found" if places else "pip is told to use no index")
    raise BuildError(f"the source distribution of {source} cannot be fetched: {reasons}; {ADVICE}")


def _retry(source: Source, download: Callable[[], Path]) -> Path:
    attempt = 1
    while True:
        try:
            return download()
        except FAILURES as error:
            if attempt == ATTEMPTS:
                raise BuildError(f"the source distribution of {source} cannot be fetched: {error}; {ADVICE}") from error
        time.sleep(attempt)
        attempt += 1


@contextmanager
def _warnings_of_unearth() -> Iterator[list[str]]:
    """Collects what unearth would print, to be told only if nothing is found."""
    said: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, handler = logging.getLogger("unearth"), Collect(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
