"""Principal: the tenant and the token on whose behalf work is done."""

from typing import Final, NamedTuple

DEFAULT_TENANT: Final = "default"
"""Tenant of everything that was created without naming one, such as by the embedded library."""


class Principal(NamedTuple):
    """Tenant and token id that requested some work; the unit of fair scheduling and of quotas.

    `token` is empty where no token was used: the embedded library, the command line without a daemon.
    """

    tenant: str = DEFAULT_TENANT
    token: str = ""
