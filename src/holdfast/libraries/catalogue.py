"""Libraries that are known by name. A name without a version means the version here.

Each is pinned: what is fetched must have the integrity here, whoever it comes from.
"""

from typing import Any, Final, NamedTuple


class Recipe(NamedTuple):
    """How a known library is made. `integrity` is that of the package."""

    integrity: str
    file: str = ""
    """A file of the package that needs nothing else, where the package does not say which."""
    package: str = ""
    """A package of Debian, and its version."""
    loaded: tuple[str, ...] = ()
    """Modules of a Lua library that are loaded with it. The others are loaded when a script requires them."""
    before: str = ""
    """What a Lua library needs of the language that scripts do not have."""


def _known(kind: str, name: str, version: str, variable: str, description: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "version": version,
        "description": description,
        "source": kind,
        "type": kind,
        "config": {"global": variable, "language": "javascript" if kind == "npm" else "lua"},
    }


CATALOGUE: Final[tuple[dict[str, Any], ...]] = (
    _known("npm", "lodash", "4.17.21", "_", "Functions for arrays, objects, strings and numbers."),
    _known("npm", "moment", "2.29.4", "moment", "Reads, checks, changes and prints dates."),
    _known("npm", "axios", "1.6.0", "axios", "An HTTP client with promises, over the module http."),
    _known("npm", "ramda", "0.29.0", "R", "Functional programming, curried and without side effects."),
    _known("npm", "dayjs", "1.11.10", "dayjs", "Dates in two kilobytes, with the interface of moment."),
    _known("npm", "zustand", "4.4.7", "zustand", "Small stores of state, without React."),
    _known("debian", "penlight", "1.13.1", "", "Lists, maps, strings, classes, templates and parsers for Lua, as pl.*."),
    _known("debian", "inspect", "3.1.1", "", "Prints Lua tables for people."),
    _known("debian", "dkjson", "2.6", "", "JSON for Lua, read and written."),
    _known("debian", "argparse", "0.7.1", "", "Parses command lines in Lua."),
)

RECIPES: Final[dict[str, Recipe]] = {
    "lodash-4.17.21": Recipe(
        "sha512-v2kDEe57lecTulaDIuNTPy3Ry4gLGJ6Z1O3vE1krgXZNrsQ+LFTGHVxVjcXPs17LhbZVGedAJv8XZ1tvj5FvSg==", file="lodash.min.js"
    ),
    "moment-2.29.4": Recipe(
        "sha512-5LC9SOxjSc2HF6vO2CyuTDNivEdoz2IvyJJGj6X8DJ0eFyfszE0QiEd+iXmBvUP3WHxSjFH/vIsA0EN00cgr8w==",
        file="min/moment.min.js",
    ),
    "axios-1.6.0": Recipe("sha512-EZ1DYihju9pwVB+jg67ogm+Tmqc6JmhamRN6I4Zt8DfZu5lbcQGw3ozH9lFejSJgs/ibaef3A9PMXPLeefFGJg=="),
    "ramda-0.29.0": Recipe("sha512-BBea6L67bYLtdbOqfp8f58fPMqEwx0doL+pAi8TZyp2YWz8R9G8z9x75CZI8W+ftqhFHCpEX2cRnUUXK130iKA=="),
    "dayjs-1.11.10": Recipe("sha512-vjAczensTgRcqDERK0SR2XMwsF/tSvnvlv6VcF2GIhg6Sx4yOIt/irsr1RDJsKiIyBzJDpCoXiWWq28MqH2cnQ=="),
    "zustand-4.4.7": Recipe("sha512-QFJWJMdlETcI69paJwhSMJz7PPWjVP8Sjhclxmxmxv/RYI7ZOvR5BHX+ktH0we9gTWQMxcne8q1OY8xxz604gw=="),
    "penlight-1.13.1": Recipe(
        "sha256-aZGENO5lDQaqRw1JugWhoWrkPma4IW4TXMUHX31dn/M=",
        package="lua-penlight=1.13.1-3",
        before="local io = io or {}; package.config = package.config or '/\\n;\\n?\\n!\\n-\\n'",
        loaded=("pl.utils", "pl.tablex", "pl.stringx", "pl.List", "pl.Map", "pl.Set", "pl.seq", "pl.pretty"),
    ),
    "inspect-3.1.1": Recipe(
        "sha256-w7ADYvIHr2dJ/mcUiZcXAb0ujMJGYzKCdIXgjx/QkoY=", package="lua-inspect=3.1.1-2", loaded=("inspect",)
    ),
    "dkjson-2.6": Recipe("sha256-kdlopyfAq0y9Bm7QcgKdbmQRLOmHBqtamsB4B4LrMP4=", package="lua-dkjson=2.6-2", loaded=("dkjson",)),
    "argparse-0.7.1": Recipe(
        "sha256-ez/4M42dPflNG/7Q4ZFEDuOlbiYiueMt3yo1AWrlsy8=", package="lua-argparse=0.7.1-2", loaded=("argparse",)
    ),
}

ENTRIES: Final = ("axios", "zustand")
"""Packages that scripts can use only in a way of their own, whatever the version: `entries` has a file for each."""
