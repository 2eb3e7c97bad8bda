"""What templates may be made of."""

from typing import Any

from holdfast.capabilities import describe
from holdfast.libraries import CATALOGUE


def languages() -> list[dict[str, Any]]:
    return [
        {
            "id": "javascript",
            "name": "JavaScript",
            "version": "ES2023",
            "extensions": [".js", ".mjs"],
            "description": "QuickJS-NG in WebAssembly: modules, promises, async and await.",
        },
        {
            "id": "lua",
            "name": "Lua",
            "version": "5.4",
            "extensions": [".lua"],
            "description": "Lua in WebAssembly, with coroutines that can wait at any depth.",
        },
    ]


def modules() -> list[dict[str, Any]]:
    return describe()


def libraries() -> list[dict[str, Any]]:
    return [dict(library) for library in CATALOGUE]
