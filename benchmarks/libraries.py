"""Libraries from the npm registry that benchmarks and tests load, as tests/libraries pins them."""

from pathlib import Path

from guests.build.cache import Cache, default_root
from guests.build.npm import install_packages

_PINNED = Path(__file__).parent.parent / "tests" / "libraries"
FILES = {
    "lodash": "lodash/lodash.min.js",
    "ramda": "ramda/dist/ramda.min.js",
    "dayjs": "dayjs/dayjs.min.js",
}


def library(name: str) -> str:
    """The source of a library, fetched once into the user's cache."""
    return (install_packages(_PINNED, Cache(default_root())) / "node_modules" / FILES[name]).read_text()
