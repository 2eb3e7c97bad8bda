"""Namespaces of the state: who owns what is in them.

A name is made of parts that end in a slash, so that one which begins with another lies in it. What begins with the root of a session or a
template goes away with that.
"""

from uuid import UUID

from holdfast.domain._errors import InvalidValue
from holdfast.domain._principal import DEFAULT_TENANT, check_tenant

_LONGEST = 100


def session_root(session_id: UUID) -> str:
    """Where what only this session has lies."""
    return f"session/{session_id}/"


def template_root(template_id: UUID) -> str:
    """Where what all sessions of a template share lies."""
    return f"template/{template_id}/"


def shared_root(name: str, tenant: str = DEFAULT_TENANT) -> str:
    """Where what all templates of a tenant share that name it lies.

    >>> shared_root("team"), shared_root("team", "a")
    ('shared/team/', 'tenant/a/shared/team/')
    """
    shared = f"shared/{check_namespace(name)}/"
    return shared if tenant == DEFAULT_TENANT else f"tenant/{check_tenant(tenant)}/{shared}"


def hidden_root(root: str, part: str = "") -> str:
    """Where what lies below a root, goes with it, and cannot be named by a script lies: no namespace of a script has an empty name.

    >>> hidden_root("shared/team/", "cards")
    'shared/team//cards/'
    """
    return f"{root}/{part}/" if part else f"{root}/"


def check_namespace(name: str) -> str:
    """A name that somebody gives to a namespace. `InvalidValue`.

    >>> check_namespace("scores")
    'scores'
    """
    if not name or len(name) > _LONGEST or "/" in name or "\\" in name or ".." in name or "\0" in name:
        raise InvalidValue(f"Invalid namespace: '{name[:40]}'")
    return name
