"""Libraries that templates name: a catalogue, a folder in which they lie, and how they come into it.

`names` says what a name means, `cache` finds and checks files, `lock` keeps what was added. `adding` fetches with `npm` or `debian`, makes
one file of a package in `bundling`, and lets it leave its exports where sessions find them, in `wrapping`.
"""

from holdfast.libraries._errors import LibraryNotAdded
from holdfast.libraries.cache import CachedLibrary, LibraryCache, Verified, checksum, is_meant
from holdfast.libraries.catalogue import CATALOGUE
from holdfast.libraries.lock import Locked
from holdfast.libraries.names import check_library
from holdfast.libraries.wrapping import stubs

__all__ = [
    "CATALOGUE",
    "CachedLibrary",
    "LibraryCache",
    "LibraryNotAdded",
    "Locked",
    "Verified",
    "check_library",
    "checksum",
    "is_meant",
    "stubs",
]
