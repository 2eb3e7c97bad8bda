"""Sealed cursors: positions in lists that tell their reader nothing.

A store's cursor has the key of a row, and so tells how much all tenants together have written. It is encrypted for the tenant that it was
made for; nobody else can use it, and none can be made up.
"""

import binascii
import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hmac import compare_digest
from typing import Final

from holdfast.domain import InvalidValue

_MARK: Final = 16


class Cursors:
    """Seals and opens the cursors of one tenant. Deterministic: the same position has the same cursor."""

    def __init__(self, secret: bytes, tenant: str) -> None:
        self._key = hashlib.blake2b(tenant.encode(), key=secret, person=b"hf cursor").digest()

    def seal(self, cursor: str) -> str:
        """Return a cursor of the store as the tenant sees it."""
        data = cursor.encode()
        mark = self._mark(data)
        return urlsafe_b64encode(mark + self._masked(mark, data)).decode().rstrip("=")

    def open(self, sealed: str) -> str:
        """Return the cursor of the store; `InvalidValue` if it was not made for this tenant."""
        try:
            raw = urlsafe_b64decode(sealed.encode("ascii") + b"=" * (-len(sealed) % 4))
        except (ValueError, binascii.Error):
            raw = b""
        mark, data = raw[:_MARK], self._masked(raw[:_MARK], raw[_MARK:])
        if len(raw) <= _MARK or not compare_digest(mark, self._mark(data)) or self.seal(data.decode()) != sealed:
            raise InvalidValue("the cursor is not one of this list")
        return data.decode()

    def _mark(self, data: bytes) -> bytes:
        """The MAC of a cursor, which is the nonce of its encryption as well."""
        return hashlib.blake2b(data, key=self._key, digest_size=_MARK, person=b"hf mark").digest()

    def _masked(self, mark: bytes, data: bytes) -> bytes:
        stream = hashlib.shake_256(self._key + mark).digest(len(data))
        return bytes(one ^ other for one, other in zip(data, stream, strict=True))
