"""Principal: the tenant and the token on whose behalf work is done."""

import re
from typing import Final, NamedTuple

from holdfast.domain._errors import InvalidValue

DEFAULT_TENANT: Final = "default"
"""Tenant of everything that was created without naming one, such as by the embedded library."""

ALL_TENANTS: Final = "*"
"""What an operator names to see every tenant; no tenant has this name."""
_TENANT: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}", re.ASCII)


def check_tenant(name: str) -> str:
    """Return the name of a tenant, or raise `InvalidValue`.

    >>> check_tenant("team-a")
    'team-a'
    """
    if not isinstance(name, str) or not _TENANT.fullmatch(name):
        raise InvalidValue("a tenant's name has 1 to 64 of the characters a-z 0-9 . _ - and begins with a letter or digit")
    return name


class Principal(NamedTuple):
    """Tenant and token id that requested some work; the unit of fair scheduling and of quotas.

    `token` is empty where no token was used: the embedded library, the command line without a daemon.
    """

    tenant: str = DEFAULT_TENANT
    token: str = ""
