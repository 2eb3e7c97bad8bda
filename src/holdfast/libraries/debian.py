"""Lua libraries as Debian packages them: fetched by the user's own `apt-get`, and only if they are exactly what the catalogue pins.

A package is an `ar` archive with a tar archive in it. It is read, and never unpacked or installed; links in it are not followed.
"""

import base64
import hashlib
import io
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import Final

from holdfast.libraries._errors import LibraryNotAdded
from holdfast.libraries._process import run

_MAGIC: Final = b"!<arch>\n"
_HEADER: Final = 60
_LARGEST: Final = 16 << 20
_FOLDER: Final = PurePosixPath("usr/share/lua")


def fetch(package: str, integrity: str, folder: Path) -> dict[str, str]:
    """The Lua modules of a package, `<name>=<version>`, by the names that scripts require them by."""
    apt = shutil.which("apt-get")
    if apt is None:
        raise LibraryNotAdded(
            f"{package} is a package of Debian, and there is no apt-get to fetch it",
            "APT_MISSING",
            "add its file instead: `holdfast libs add ./file.lua --name NAME --version VERSION`",
        )
    run([apt, "download", package], folder, "DOWNLOAD_FAILED", f"apt-get could not fetch {package}")
    archives = list(folder.glob("*.deb"))
    if len(archives) != 1 or archives[0].stat().st_size > _LARGEST:
        raise LibraryNotAdded(f"apt-get could not fetch {package}", "DOWNLOAD_FAILED")
    data = archives[0].read_bytes()
    if f"sha256-{base64.b64encode(hashlib.sha256(data).digest()).decode()}" != integrity:
        raise LibraryNotAdded(f"{package} is not what it was when it was chosen", "INTEGRITY_MISMATCH")
    return modules_of(data)


def modules_of(package: bytes) -> dict[str, str]:
    """The Lua modules in a package."""
    found: dict[str, str] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(_data(package))) as archive:
            for member in archive:
                path = PurePosixPath(member.name)
                inside = path.relative_to(_FOLDER).parts[1:] if path.is_relative_to(_FOLDER) else ()  # after the version of Lua
                file = archive.extractfile(member) if inside and member.isfile() and member.size <= _LARGEST else None
                if file is not None and path.suffix == ".lua":
                    name = ".".join(inside).removesuffix(".lua").removesuffix(".init")
                    found.setdefault(name, file.read().decode("utf-8-sig"))
    except (tarfile.TarError, OSError, EOFError, ValueError):
        raise LibraryNotAdded("this is not a package of Debian that could be read", "DOWNLOAD_FAILED") from None
    return found


def _data(package: bytes) -> bytes:
    """The archive of files in the archive."""
    if not package.startswith(_MAGIC):
        raise ValueError
    place = len(_MAGIC)
    while place + _HEADER <= len(package):
        header = package[place : place + _HEADER]
        size = int(header[48:58])
        place += _HEADER
        if header[:16].rstrip(b" /").startswith(b"data.tar"):
            return package[place : place + size]
        place += size + size % 2
    raise ValueError
