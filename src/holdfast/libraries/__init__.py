"""Libraries that templates name: a catalogue, and a folder in which they lie."""

from holdfast.libraries.cache import CachedLibrary, LibraryCache, check_library, checksum
from holdfast.libraries.catalogue import CATALOGUE

__all__ = ["CATALOGUE", "CachedLibrary", "LibraryCache", "check_library", "checksum"]
