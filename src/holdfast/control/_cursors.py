"""Sealed cursors: positions in lists that tell their reader nothing.

A store's cursor has the key of a row, and so tells how much all tenants together have written. It is padded and encrypted for the tenant
that it was made for, so its length tells nothing. Nobody else can use it, and none can be made up. A step of the tenant has the same cursor
for all its readers; the next page of a list, and the end of the feed, which moves as others write, have another one each time, so whether
two are equal tells nothing.
"""

import binascii
import hashlib
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hmac import compare_digest
from typing import Final

from holdfast.domain import InvalidValue

_NONCE: Final = 16
_MARK: Final = 16
_BLOCK: Final = 96
"""Bytes that all but the longest cursors of a store have room in."""
_END: Final = b"\x80"


class Cursors:
    """Seals and opens the cursors of one tenant."""

    def __init__(self, secret: bytes, tenant: str) -> None:
        self._key = hashlib.blake2b(tenant.encode(), key=secret, person=b"hf cursor").digest()

    def seal(self, cursor: str, *, fresh: bool = False) -> str:
        """Return a cursor of the store as the tenant sees it. With `fresh` it is another one each time."""
        data = cursor.encode() + _END
        nonce = os.urandom(_NONCE) if fresh else self._nonce(data)
        hidden = self._masked(nonce, data.ljust(-(-len(data) // _BLOCK) * _BLOCK, b"\0"))
        return urlsafe_b64encode(nonce + hidden + self._mark(nonce + hidden)).decode().rstrip("=")

    def open(self, sealed: str) -> str:
        """Return the cursor of the store; `InvalidValue` if it was not made for this tenant."""
        try:
            raw = urlsafe_b64decode(sealed.encode("ascii") + b"=" * (-len(sealed) % 4))
        except (ValueError, binascii.Error):
            raw = b""
        given, mark = raw[:-_MARK], raw[-_MARK:]
        is_plain = urlsafe_b64encode(raw).decode().rstrip("=") == sealed
        if len(given) <= _NONCE or not is_plain or not compare_digest(mark, self._mark(given)):
            raise InvalidValue("the cursor is not one of this list")
        return self._masked(given[:_NONCE], given[_NONCE:]).rstrip(b"\0").removesuffix(_END).decode()

    def _nonce(self, data: bytes) -> bytes:
        """A nonce that follows from what is encrypted with it."""
        return hashlib.blake2b(data, key=self._key, digest_size=_NONCE, person=b"hf nonce").digest()

    def _mark(self, data: bytes) -> bytes:
        """The MAC of a nonce and what is encrypted with it."""
        return hashlib.blake2b(data, key=self._key, digest_size=_MARK, person=b"hf mark").digest()

    def _masked(self, nonce: bytes, data: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + nonce).digest(len(data))
        return bytes(one ^ other for one, other in zip(data, stream, strict=True))
