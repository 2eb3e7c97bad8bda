"""Images: the state of a sandbox at rest, in memory and sealed as bytes.

In memory an image is the template it came from and the pages that differ from it. Images of one sandbox share the pages that did
not change between them, so keeping several costs little.

Sealed, an image is written against one of three things, and is opened with the same:

    nothing         the whole memory, which any process with the same guest can thaw
    its template    what the session changed, some kilobytes
    another image   what changed since then: a delta

All carry a version, the digests of guest and template, a label, and a keyed MAC over every byte, which is checked before anything
else is believed.

    0  4s magic · B version · B kind · H unused · 16s guest · 16s template · 16s session · Q number
    64 16s parent session · Q parent number · 8s token · 8s parent token · I memory size in 64 KB · I payload size unpacked
       payload (zstd) · 16s MAC

A label is for people and stores, and two images may bear the same one. The token is drawn anew for each image that is frozen: by it a
delta knows the image that it was made against.
"""

import hashlib
import hmac
import os
import random
import struct
import threading
import weakref
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from uuid import UUID

import zstandard

from holdfast.sandbox import _delta
from holdfast.sandbox._crossing import WASM_PAGE
from holdfast.sandbox._errors import ImageDamaged, ImageForeign, ImageTooLarge, ImageUnsupported
from holdfast.sandbox._pages import PAGE, ZERO_PAGE, is_page_of, page_of

if TYPE_CHECKING:
    from holdfast.sandbox.template import Template

VERSION: Final = 1
LARGEST: Final = 1 << 30
"""The largest memory, in bytes, that an image may have unless the caller says otherwise."""

_MAGIC: Final = b"HFIM"
_HEAD: Final = struct.Struct("<4sBBH16s16s16sQ16sQ8s8sII")
_MAC_SIZE: Final = 16
_TOKEN_SIZE: Final = 8
_KEY_SIZES: Final = range(16, 65)
_SMALL: Final = 16384
"""Up to here no codes are made for the bytes that do not repeat: that takes as long as all else, and saves some thirty bytes."""


# The system's own source would give Python's lock away each time. A child process must not draw what its parent draws.
_tokens: Final = random.Random()  # noqa: S311 - a token is no secret: it tells images apart
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_tokens.seed)


class Label(NamedTuple):
    """Which image this is: the session it belongs to, and its number there."""

    session: UUID = UUID(int=0)
    number: int = 0


class Kind(IntEnum):
    """What an image is sealed against."""

    WHOLE = 0
    TEMPLATE = 1
    DELTA = 2


_KINDS: Final = tuple(Kind)


class Image:
    """The state of a sandbox at rest. Immutable; thaw it as often as you like."""

    __slots__ = ("__weakref__", "_since", "label", "pages", "size", "template", "token")

    def __init__(
        self, template: "Template", size: int, pages: dict[int, bytes], label: Label, token: bytes | None = None
    ) -> None:
        self.template, self.size, self.pages, self.label = template, size, pages, label
        self.token = token or _tokens.randbytes(_TOKEN_SIZE)
        self._since: tuple[weakref.ref[Image], list[int]] | None = None

    @property
    def own_bytes(self) -> int:
        """Bytes of the pages that are not those of the template."""
        return len(self.pages) * PAGE

    def page(self, number: int) -> bytes:
        """The content of one page."""
        return self.pages.get(number) or page_of(self.template.content, number)

    def some(self, numbers: list[int]) -> list[bytes]:
        """The contents of several pages."""
        pages = list(map(self.pages.get, numbers))
        if None in pages:
            return [self.page(number) for number in numbers]
        return cast("list[bytes]", pages)

    def follows(self, previous: "Image", changed: list[int]) -> None:
        """Notes which pages changed since the previous image, so that a delta against it need not look for them."""
        self._since = weakref.ref(previous), changed

    def changed_since(self, earlier: "Image") -> list[int]:
        """The numbers of the pages that may differ from an earlier image of the same template."""
        numbers: list[int] = []
        image, since = self, self._since
        while since is not None:
            numbers += since[1]
            previous = since[0]()
            if previous is earlier:
                return since[1] if image is self else sorted(set(numbers))
            if previous is None:
                break
            image, since = previous, previous._since
        mine, theirs = self.pages, earlier.pages
        return sorted(number for number in mine.keys() | theirs.keys() if mine.get(number) is not theirs.get(number))

    def seal(self, key: bytes, against: "Image | Template | None" = None) -> bytes:
        """The image as bytes, with a MAC under `key`. See the module's docstring for `against`."""
        parent, parent_token = Label(), bytes(_TOKEN_SIZE)
        if against is None:
            kind, delta = Kind.WHOLE, self._whole()
        elif isinstance(against, Image):
            if against.template is not self.template:
                raise ImageForeign("a delta needs an image of the same template")
            kind, parent, parent_token = Kind.DELTA, against.label, against.token
            numbers = self.changed_since(against)
            self.follows(against, numbers)  # what lies between may be forgotten now
            delta = self._difference(numbers, against.some(numbers))
        else:
            if against is not self.template:
                raise ImageForeign("this image comes from another template")
            kind, numbers = Kind.TEMPLATE, sorted(self.pages)
            delta = self._difference(numbers, [page_of(against.content, number) for number in numbers])
        guest, template = self.template.guest.digest[:16], self.template.digest[:16]
        head = _Head(kind, guest, template, self.label, parent, self.token, parent_token, self.size)
        return head.seal(delta, key)

    def _whole(self) -> _delta.Delta:
        last = max(self.size, len(self.template.content)) // PAGE
        numbers = [number for number in range(last) if self.page(number) != ZERO_PAGE]
        return self._difference(numbers, [ZERO_PAGE] * len(numbers))

    def _difference(self, numbers: list[int], before: list[bytes]) -> _delta.Delta:
        """What these pages are, against what they were."""
        engine = self.template.guest.engine
        if engine.unchecked:
            return engine.xor.difference(numbers, before, self.some(numbers))
        return _delta.difference(numbers, before, self.some(numbers), engine.xor)


class _Compression(threading.local):
    """What packs and unpacks on this thread: to make either anew takes longer than a small delta."""

    def __init__(self) -> None:
        self.pack_small = zstandard.ZstdCompressor(level=-1).compress
        self.pack_large = zstandard.ZstdCompressor(level=1).compress
        self.unpack = zstandard.ZstdDecompressor().decompress

    def pack(self, data: bytes) -> bytes:
        return self.pack_small(data) if len(data) <= _SMALL else self.pack_large(data)


_compression: Final = _Compression()


class _Head(NamedTuple):
    """What a sealed image says about itself."""

    kind: Kind
    guest: bytes
    template: bytes
    label: Label
    parent: Label
    token: bytes
    parent_token: bytes
    size: int

    def seal(self, delta: _delta.Delta, key: bytes) -> bytes:
        packed = delta.pack()
        label, parent = self.label, self.parent
        if not 0 <= label.number < 1 << 64:
            raise ValueError("the number of an image is not negative and has 64 bits")
        head = _HEAD.pack(
            _MAGIC,
            VERSION,
            self.kind,
            0,
            self.guest,
            self.template,
            label.session.bytes,
            label.number,
            parent.session.bytes,
            parent.number,
            self.token,
            self.parent_token,
            self.size // WASM_PAGE,
            len(packed),
        )
        body = head + _compression.pack(packed)
        return body + _mac(body, key)


def _mac(body: bytes, key: bytes) -> bytes:
    if len(key) not in _KEY_SIZES:
        raise ValueError("a key has 16 to 64 bytes")
    return hashlib.blake2b(body, digest_size=_MAC_SIZE, key=key, person=b"holdfast image").digest()


def _unseal(sealed: bytes, key: bytes, largest: int) -> tuple[_Head, _delta.Delta]:
    """Checks everything that can be checked without a template: MAC first, then version, then sizes."""
    if len(sealed) < _HEAD.size + _MAC_SIZE or sealed[:4] != _MAGIC:
        raise ImageDamaged
    body = sealed[:-_MAC_SIZE]
    if sealed[4] != VERSION:
        raise ImageUnsupported(f"the image has version {sealed[4]}; this Holdfast reads version {VERSION}")
    if not hmac.compare_digest(_mac(body, key), sealed[-_MAC_SIZE:]):
        raise ImageDamaged
    fields = _HEAD.unpack_from(body)
    _, _, kind, _, guest, template, session, number, parent_session, parent_number, token, parent_token, size, unpacked = fields
    size *= WASM_PAGE
    if kind not in _KINDS:
        raise ImageDamaged
    if size > largest:
        raise ImageTooLarge(f"the image needs {size} bytes; {largest} are allowed")
    if unpacked > _delta.largest(size // PAGE):  # more than every page of its memory
        raise ImageDamaged
    payload = body[_HEAD.size :]
    try:  # the size that the payload itself states is what would be allocated
        if zstandard.get_frame_parameters(payload).content_size != unpacked:
            raise ImageDamaged
        packed = _compression.unpack(payload, max_output_size=unpacked)
    except zstandard.ZstdError:
        raise ImageDamaged from None
    if len(packed) != unpacked:
        raise ImageDamaged
    delta = _delta.Delta.unpack(packed)
    if delta.end > size // PAGE:
        raise ImageDamaged
    label, parent = Label(UUID(bytes=session), number), Label(UUID(bytes=parent_session), parent_number)
    return _Head(Kind(kind), guest, template, label, parent, token, parent_token, size), delta


def open_image(
    sealed: bytes, key: bytes, template: "Template", parent: Image | None = None, *, largest: int = LARGEST
) -> Image:
    """The image in these bytes, over a template of the same guest; a delta needs the image it was sealed against."""
    head, delta = _unseal(sealed, key, largest)
    if head.guest != template.guest.digest[:16]:
        raise ImageForeign("the image was made by another guest")
    if head.kind is not Kind.WHOLE and head.template != template.digest[:16]:
        raise ImageForeign("the image belongs to another template")
    if head.size < len(template.content):
        raise ImageForeign("the image is smaller than the template")
    if head.kind is Kind.DELTA:
        if parent is None or parent.token != head.parent_token or parent.template is not template:
            raise ImageForeign("the image is a delta against another image")
        if head.size < parent.size:
            raise ImageDamaged("the image is smaller than the one before it, which no memory can be")
        pages = parent.pages | _apply(delta, parent.page, template)
        _drop_same(pages, delta.masks, template)
        image = Image(template, head.size, pages, head.label, head.token)
        image.follows(parent, list(delta.masks))
        return image
    if head.kind is Kind.TEMPLATE:
        pages = _apply(delta, partial(page_of, template.content), template)
    else:
        pages = _apply(delta, lambda number: ZERO_PAGE, template)
        blank = (n for n in range(len(template.content) // PAGE) if n not in pages)
        pages |= {n: ZERO_PAGE for n in blank if page_of(template.content, n) != ZERO_PAGE}
        _drop_same(pages, list(pages), template)
    return Image(template, head.size, pages, head.label, head.token)


def _apply(delta: _delta.Delta, page: Callable[[int], bytes], template: "Template") -> dict[int, bytes]:
    """The pages that a delta makes of those that `page` gives."""
    engine = template.guest.engine
    return engine.xor.apply(delta, page) if engine.unchecked else _delta.apply(delta, page, engine.xor)


def _drop_same(pages: dict[int, bytes], numbers: "dict[int, int] | list[int]", template: "Template") -> None:
    """Forgets pages that are again what the template has."""
    for number in numbers:
        if is_page_of(template.content, number, pages[number]):
            del pages[number]


def compose(first: bytes, second: bytes, key: bytes, *, largest: int = LARGEST) -> bytes:
    """One sealed image that does what two in a row do, without thawing either: the way to drop an image between two others.

    `second` must be a delta against `first`. The result is sealed against what `first` was sealed against.
    """
    earlier, one = _unseal(first, key, largest)
    later, two = _unseal(second, key, largest)
    if later.kind is not Kind.DELTA or later.parent_token != earlier.token or later.template != earlier.template:
        raise ImageForeign("the second image is not a delta against the first")
    merged = later._replace(kind=earlier.kind, parent=earlier.parent, parent_token=earlier.parent_token)
    return merged.seal(_delta.compose(one, two), key)


def relabel(sealed: bytes, key: bytes, label: Label, *, largest: int = LARGEST) -> bytes:
    """The same image under another label: for a session that takes over an image of one that goes away."""
    head, delta = _unseal(sealed, key, largest)
    return head._replace(label=label).seal(delta, key)


def read_label(sealed: bytes, key: bytes, *, largest: int = LARGEST) -> tuple[Label, Label | None]:
    """The label of a sealed image, and of the image it is a delta against."""
    head, _ = _unseal(sealed, key, largest)
    return head.label, head.parent if head.kind is Kind.DELTA else None
