"""Libraries that are known by name. A name without a version means the version here."""

from typing import Any, Final


def _npm(name: str, version: str, variable: str, description: str) -> dict[str, Any]:
    return {
        "id": name,
        "name": name,
        "version": version,
        "description": description,
        "source": "npm",
        "type": "npm",
        "config": {"global": variable},
    }


CATALOGUE: Final[tuple[dict[str, Any], ...]] = (
    _npm("lodash", "4.17.21", "_", "Functions for arrays, objects, strings and numbers."),
    _npm("moment", "2.29.4", "moment", "Reads, checks, changes and prints dates."),
    _npm("axios", "1.6.0", "axios", "An HTTP client with promises."),
    _npm("ramda", "0.29.0", "R", "Functional programming, curried and without side effects."),
    _npm("dayjs", "1.11.10", "dayjs", "Dates in two kilobytes, with the interface of moment."),
    _npm("zustand", "4.4.7", "zustand", "Small stores of state."),
)
