"""Archives of packages: `.tar`, `.tar.gz`, `.tgz` and `.zip`, from anybody.

They are read into memory, file by file, with a bound on everything: what is unpacked, how many files there are, what a header may claim.
Nothing is written, and no name in one is a path of this system before it has been looked at. Links and devices are refused, not left out:
an archive that has them is not what it seems.
"""

import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple

from holdfast.strategies._errors import PackageInvalid
from holdfast.strategies._files import opened
from holdfast.strategies._tar import Entry, Stream, TooMuch, entries
from holdfast.strategies.content import LARGEST_FILE
from holdfast.strategies.names import DEEPEST, check_part, is_left_out

ENDINGS: Final = (".tar.gz", ".tgz", ".tar", ".zip")
LARGEST: Final = 64 << 20
"""Bytes of an archive, and of all that is in it."""
MOST_FILES: Final = 10_000
"""Also folders, and what is left out."""

_END: Final = struct.Struct("<4s4H2LH")
"""The record at the end of a zip: signature, two numbers of disks, two of entries, size and place of the directory, length of a comment."""
_LONGEST_COMMENT: Final = 1 << 16
_LONGEST_ENTRY: Final = 400
"""Bytes that an entry of a zip's directory may have on average."""
_HEADERS: Final = MOST_FILES << 10
"""Bytes of a tar that are not those of files."""
_BROKEN: Final = (
    OSError,
    EOFError,
    ValueError,
    OverflowError,
    IndexError,
    RuntimeError,
    zlib.error,
    struct.error,
    zipfile.BadZipFile,
)
"""What readers raise, Python's and ours."""


class _Member(NamedTuple):
    name: str
    is_folder: bool
    is_file: bool
    data: Iterator[bytes]


def is_archive(path: Path) -> bool:
    """
    >>> is_archive(Path("panel-1.0.tar.gz")), is_archive(Path("panel"))
    (True, False)
    """
    return path.name.lower().endswith(ENDINGS)


def stem(path: Path) -> str:
    """The name of an archive without its ending."""
    return next((path.name[: -len(ending)] for ending in ENDINGS if path.name.lower().endswith(ending)), path.name)


def read_archive(path: Path) -> dict[str, bytes]:
    """All files of an archive that may belong to packages, by their names. `PackageInvalid` if it is not to be trusted, or broken."""
    files: dict[str, bytes] = {}
    count, total = 0, 0
    try:
        with opened(path) as file:
            if file.seek(0, 2) > LARGEST:
                raise _too_large()
            file.seek(0)
            for member in _zipped(file) if path.name.lower().endswith(".zip") else _tarred(file, path.name):
                count += 1
                if count > MOST_FILES:
                    raise PackageInvalid(f"the archive has more than {MOST_FILES} entries")
                name = _checked(member)
                if member.is_folder or any(is_left_out(part) for part in name.split("/")):
                    continue
                if name in files:
                    raise PackageInvalid(f"the archive has {name} twice")
                files[name] = b"".join(member.data)
                total += len(files[name])
                if total > LARGEST:
                    raise _too_large()
    except TooMuch:
        raise _too_large() from None
    except FileNotFoundError:
        raise PackageInvalid(f"there is no file {path.name[:80]!r}") from None
    except _BROKEN:
        raise PackageInvalid(f"{path.name[:80]!r} cannot be read as an archive") from None
    return files


def _checked(member: _Member) -> str:
    """The name of a member without detours. Nothing is mended: a name that leads anywhere else is refused."""
    parts = [part for part in member.name.rstrip("/").split("/") if part != "."]
    if member.name.startswith("/") or ".." in parts:
        raise PackageInvalid(f"the archive has a name that leads out of it: {ascii(member.name)[:80]}")
    for part in parts:
        check_part(part)
    if len(parts) > DEEPEST + 3:  # with the folder of the package, and two around it
        raise PackageInvalid(f"the archive has too many folders in each other: {ascii(member.name)[:80]}")
    if not member.is_folder and not member.is_file:
        raise PackageInvalid(f"the archive has something that is no file: {ascii(member.name)[:80]}")
    if not parts and not member.is_folder:
        raise PackageInvalid("the archive has a file without a name")
    return "/".join(parts)


def _check_size(name: str, size: int) -> None:
    if size > LARGEST_FILE:
        raise PackageInvalid(f"{ascii(name)[:80]} is too large: a file of a package has at most {LARGEST_FILE >> 20} MB")


def _too_large() -> PackageInvalid:
    return PackageInvalid(f"the archive is too large: all that is in it has at most {LARGEST >> 20} MB")


# ---- tar ---------------------------------------------------------------------------------------------------------------------------


def _tarred(file: IO[bytes], name: str) -> Iterator[_Member]:
    stream = Stream(file, name.lower().endswith("gz"), LARGEST + _HEADERS)
    for entry in entries(stream):
        yield _Member(entry.name, entry.is_folder, entry.is_file, _taken(stream, entry))


def _taken(stream: Stream, entry: Entry) -> Iterator[bytes]:
    _check_size(entry.name, entry.size)
    yield stream.take(entry.size)


# ---- zip ---------------------------------------------------------------------------------------------------------------------------


def _zipped(file: IO[bytes]) -> Iterator[_Member]:
    _check_directory(file)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            mode = member.external_attr >> 16
            kind = stat.S_IFMT(mode)
            plain = kind in (0, stat.S_IFREG) and member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            is_folder = member.is_dir() and kind in (0, stat.S_IFDIR)
            is_file = plain and not member.is_dir() and not member.flag_bits & 0x1  # encrypted
            yield _Member(member.filename, is_folder, is_file, _unzipped(archive, member))


def _unzipped(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Iterator[bytes]:
    with archive.open(member) as opened:
        data = opened.read(LARGEST_FILE + 1)
    _check_size(member.filename, len(data))
    yield data


def _check_directory(file: IO[bytes]) -> None:
    """Python's own reader takes the whole directory into memory before it gives a single entry, a hundred times the size of the file."""
    size = file.seek(0, 2)
    file.seek(max(0, size - _LONGEST_COMMENT - 2 * _END.size))
    tail = file.read()
    file.seek(0)
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) < at + _END.size:
        raise zipfile.BadZipFile
    directory = _END.unpack_from(tail, at)[5]
    if b"PK\x06\x07" in tail[max(0, at - 20) : at] or directory > MOST_FILES * _LONGEST_ENTRY:
        raise _too_large()
