"""The memory of a running sandbox, and how it becomes an image.

Only pages that were written can have changed. Where a file is mapped under the memory the page map names them; they are compared
with the last image, page by page. A sandbox that has written many pages would pay for all of them each time, so its memory as it is
becomes the file: from then on only what is written after that counts.
"""

import ctypes
from collections.abc import Iterator
from itertools import compress, count
from operator import not_
from typing import Final

from holdfast.sandbox._crossing import Instance
from holdfast.sandbox._pages import PAGE, ZERO_PAGE, MemoryFile, PageMap, differing_pages, filled_runs, is_page_of, unpack_runs
from holdfast.sandbox.image import Image, Label

_REBASE_PAGES: Final = 1024


class Memory:
    """The memory of one instance since an image of it."""

    def __init__(self, instance: Instance, image: Image, page_map: PageMap | None) -> None:
        self._instance, self._image = instance, image
        self._written = None if page_map is None else _Written(instance, page_map)

    def freeze(self, label: Label) -> Image:
        """The memory as an image."""
        origin, size = self._image, self._instance.size()
        changed = self._changed(origin, size) if self._written is None else self._written.changed(origin, size)
        content, pages = origin.template.content, origin.pages | changed
        for number, page in changed.items():
            if is_page_of(content, number, page):
                del pages[number]
        image = Image(origin.template, size, pages, label)
        image.follows(origin, list(changed))
        self._image = image
        if self._written is not None:
            self._written.settle(image)
            if len(self._written) > _REBASE_PAGES:
                self._rebase(size)
        return image

    def _changed(self, image: Image, size: int) -> dict[int, bytes]:
        """The pages that differ from an image, found by comparing all of them."""
        base = self._instance.base
        numbers = differing_pages(base, size, image.template.content, image.pages)
        return {number: ctypes.string_at(base + number * PAGE, PAGE) for number in numbers}

    def _rebase(self, size: int) -> None:
        base = self._instance.base
        file = MemoryFile(size, self._runs(base, size))
        file.map_over(base)
        file.close()

    def _runs(self, base: int, size: int) -> Iterator[tuple[int, ctypes.Array[ctypes.c_char]]]:
        for first, length in filled_runs(size // PAGE, self._image.page):
            yield first * PAGE, (ctypes.c_char * (length * PAGE)).from_address(base + first * PAGE)


class _Written:
    """The pages that were written, with what each was when it was last looked at.

    As a rule they are the same pages each time, few of which have changed since. So all that finding these few needs is kept ready,
    in lists by position: what a page was, where in that it begins, and a view of what it is. Memory is compared in place.

    The lists are of one image. While the next one is made they are of none, so that nothing is lost if that is interrupted.
    """

    def __init__(self, instance: Instance, page_map: PageMap) -> None:
        self._instance, self._page_map = instance, page_map
        self._image: Image | None = None
        self._runs = b""
        self._numbers: list[int] = []
        self._were: list[bytes] = []
        self._starts: list[int] = []
        self._views: list[memoryview] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def changed(self, image: Image, size: int) -> dict[int, bytes]:
        """The pages that differ from an image, the last that was made. What they are now is kept for the next: see `settle`."""
        runs = self._page_map.private_runs(self._instance.base, size)
        ready, self._image = self._image is image and self._runs == runs, None
        if not ready:
            self._keep(unpack_runs(runs, self._instance.base), image, size)
            self._runs = runs
        changed: dict[int, bytes] = {}
        numbers, were, starts, views = self._numbers, self._were, self._starts, self._views
        same = map(bytes.startswith, were, views, starts)
        for position in compress(count(), map(not_, same)):
            changed[numbers[position]] = were[position] = views[position].tobytes()
            starts[position] = 0
        return changed

    def settle(self, image: Image) -> None:
        """The image with the pages that `changed` has given is made."""
        self._image = image

    def _keep(self, numbers: list[int], image: Image, size: int) -> None:
        """Makes the lists for these pages."""
        content, known = image.template.content, image.pages
        memory = memoryview((ctypes.c_char * size).from_address(self._instance.base)).cast("B")
        inside = len(content) // PAGE
        self._numbers = numbers
        self._were = [known.get(number) or (content if number < inside else ZERO_PAGE) for number in numbers]
        self._starts = [0 if number in known or number >= inside else number * PAGE for number in numbers]
        self._views = [memory[number * PAGE : (number + 1) * PAGE] for number in numbers]
