"""The page that shows the OpenAPI document. It is one file, and asks for nothing but the document."""

import base64
import hashlib
from importlib.resources import files
from typing import Final

PAGE: Final = files("holdfast.http").joinpath("docs.html").read_text(encoding="utf-8")


def _hash_of(element: str) -> str:
    text = PAGE.split(f"<{element}>", 1)[1].split(f"</{element}>", 1)[0]
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        f"script-src {_hash_of('script')}",
        f"style-src {_hash_of('style')}",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""Nothing runs on the page but its own script, whatever the document says."""
