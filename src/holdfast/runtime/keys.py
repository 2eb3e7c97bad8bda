"""The key that images are sealed with."""

import hashlib
import hmac
import os
from typing import Final

from holdfast.domain import InvalidValue
from holdfast.runtime._errors import KeyMismatch
from holdfast.store import Store

_SIZES: Final = range(16, 65)


def settle_key(store: Store, given: bytes | None) -> bytes:
    """The key of a store: the one that was given when it was made, or one that it keeps itself."""
    if given is not None and (not isinstance(given, bytes) or len(given) not in _SIZES):
        raise InvalidValue("a key has 16 to 64 bytes")
    key = given if given is not None else store.secret("key", os.urandom(32))
    check = hashlib.blake2b(b"holdfast key check", key=key, digest_size=16).digest()
    if not hmac.compare_digest(store.secret("key check", check), check):
        raise KeyMismatch
    return key
