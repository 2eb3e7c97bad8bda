"""The memory of a running sandbox, and how it becomes an image.

Only pages that were written can have changed. Where a file is mapped under the memory the page map names them; they are compared
with the last image, page by page. A sandbox that has written many pages would pay for all of them each time, so its memory as it is
becomes the file: from then on only what is written after that counts.
"""

import ctypes
from collections.abc import Iterator
from typing import Final

from holdfast.sandbox._crossing import Instance
from holdfast.sandbox._pages import PAGE, MemoryFile, PageMap, differing_pages, filled_runs, page_of
from holdfast.sandbox.image import Image, Label

_REBASE_PAGES: Final = 1024


class Memory:
    """The memory of one instance since an image of it."""

    def __init__(self, instance: Instance, image: Image, page_map: PageMap | None) -> None:
        self._instance, self._image, self._page_map = instance, image, page_map

    def freeze(self, label: Label) -> Image:
        """The memory as an image."""
        origin, base, size = self._image, self._instance.base, self._instance.size()
        content, known = origin.template.content, origin.pages
        pages, changed = known.copy(), []
        string_at = ctypes.string_at
        written = self._written(base, size)
        for number in written:
            now = string_at(base + number * PAGE, PAGE)
            before = known.get(number)
            if now == (before or page_of(content, number)):
                continue
            changed.append(number)
            if before is not None and now == page_of(content, number):
                del pages[number]
            else:
                pages[number] = now
        image = Image(origin.template, size, pages, label)
        image.follows(origin, changed)
        self._image = image
        if self._page_map is not None and len(written) > _REBASE_PAGES:
            self._rebase(base, size)
        return image

    def _written(self, base: int, size: int) -> list[int]:
        if self._page_map is not None:
            return self._page_map.private_pages(base, size)
        return differing_pages(base, size, self._image.template.content, self._image.pages)

    def _rebase(self, base: int, size: int) -> None:
        file = MemoryFile(size, self._runs(base, size))
        file.map_over(base)
        file.close()

    def _runs(self, base: int, size: int) -> Iterator[tuple[int, ctypes.Array[ctypes.c_char]]]:
        for first, count in filled_runs(size // PAGE, self._image.page):
            yield first * PAGE, (ctypes.c_char * (count * PAGE)).from_address(base + first * PAGE)
