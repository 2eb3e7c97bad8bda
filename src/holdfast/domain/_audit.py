"""Audit entry: who did what to which object, from where, and with which outcome."""

from dataclasses import dataclass

from holdfast.domain._principal import DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the audit log. It never has contents of prompts, code, answers or secrets.

    `count` is how many equal refusals it stands for; the last of them was at `at`.
    """

    at: int
    """Milliseconds since 1970."""
    action: str
    """Route, tool or command, such as `POST /sessions`, `mcp run` or `token create`."""
    outcome: str
    """`ok`, or the stable code of the error."""
    status: int = 0
    """Status of the response, where there is one."""
    tenant: str = DEFAULT_TENANT
    """Tenant that the action was about."""
    token: str = ""
    """Id of the token; empty if none was used, or none was valid."""
    token_name: str = ""
    object_type: str = ""
    object_id: str = ""
    surface: str = ""
    """`rest`, `mcp`, `cli` or `daemon`."""
    address: str = ""
    """Network address of the client."""
    request_id: str = ""
    count: int = 1
