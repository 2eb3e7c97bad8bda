"""`crypto`: digests, keyed digests, and comparing without telling how much was right."""

import base64
import hashlib
import hmac
import uuid
from typing import ClassVar, Final, Literal

from holdfast.capabilities.entropy import random_bytes
from holdfast.capabilities.native import NativeModule, effect
from holdfast.domain import EffectKind
from holdfast.sandbox import HostError

_ALGORITHMS: Final = ("sha256", "sha512", "sha384", "sha224", "sha1", "md5", "sha3_256", "sha3_512", "blake2b", "blake2s")
Encoding = Literal["hex", "base64", "base64url", "bytes"]


class Crypto(NativeModule):
    """Text is taken as UTF-8."""

    name: ClassVar[str] = "crypto"
    description: ClassVar[str] = "Makes digests (hash, hmac), UUIDs and random bytes, and compares secrets safely."

    @effect(EffectKind.READ)
    def hash(self, algorithm: str, data: str | bytes, encoding: Encoding = "hex") -> str | bytes:
        return _written(hashlib.new(_known(algorithm), _bytes(data), usedforsecurity=False).digest(), encoding)

    @effect(EffectKind.READ)
    def hmac(self, algorithm: str, key: str | bytes, data: str | bytes, encoding: Encoding = "hex") -> str | bytes:
        return _written(hmac.digest(_bytes(key), _bytes(data), _known(algorithm)), encoding)

    @effect(EffectKind.READ)
    def uuid(self) -> str:
        """Of version 4."""
        return str(uuid.uuid4())

    @effect(EffectKind.READ)
    def randomBytes(self, count: int) -> bytes:  # noqa: N802 - the name that scripts see
        return random_bytes(count)

    @effect(EffectKind.READ)
    def timingSafeEqual(self, first: str | bytes, second: str | bytes) -> bool:  # noqa: N802
        """False for values of two lengths, too."""
        return hmac.compare_digest(_bytes(first), _bytes(second))


def _known(algorithm: str) -> str:
    """An algorithm by the name that Python has for it; others write SHA-256."""
    name = algorithm.lower().replace("sha-", "sha").replace("-", "_")
    if name not in _ALGORITHMS:
        raise HostError(f"an algorithm is one of {', '.join(_ALGORITHMS)}", code="INVALID_ARGUMENT")
    return name


def _bytes(data: str | bytes) -> bytes:
    return data.encode() if isinstance(data, str) else data


def _written(digest: bytes, encoding: Encoding) -> str | bytes:
    match encoding:
        case "hex":
            return digest.hex()
        case "base64":
            return base64.b64encode(digest).decode()
        case "base64url":
            return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        case "bytes":
            return digest
