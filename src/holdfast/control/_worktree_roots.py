"""Folders below which worktrees must lie, and which of them are whose."""

import os
import re
from pathlib import PurePath
from typing import Final

from holdfast.capabilities import resolve_root
from holdfast.domain import DEFAULT_TENANT, WorktreeNotAllowed

TENANT: Final = "{tenant}"
"""Stands for the name of the tenant in a root."""


def resolve_below(path: str, roots: tuple[str, ...], tenant: str) -> str:
    """The real path of a worktree. `WorktreeNotAllowed` unless it lies below a root of the tenant, `WorktreeNotFound` if it is not there.

    What counts is the path that was opened, and is opened later: it has no links in it, and whoever opens it goes through none. It is
    checked before as well, so that nobody is told whether there is a folder elsewhere.
    """
    try:
        _check_below(os.path.realpath(path), roots, tenant)
    except (OSError, ValueError):  # a name that no file can have
        raise WorktreeNotAllowed from None
    found = resolve_root(path)
    _check_below(found, roots, tenant)  # a link may have been changed since
    return found


def _check_below(real: str, roots: tuple[str, ...], tenant: str) -> None:
    """Raise `WorktreeNotAllowed` unless a folder, by its real path, lies below a root of the tenant.

    A root with `{tenant}` in it is each tenant's own; others are the default tenant's. What lies below the own root of another tenant, or
    contains one, is refused whatever other root it lies below.
    """
    folder = PurePath(real)
    allowed = [root.replace(TENANT, tenant) for root in roots if TENANT in root or tenant == DEFAULT_TENANT]
    if not any(PurePath(os.path.realpath(root)) in folder.parents for root in allowed):
        raise WorktreeNotAllowed
    if any(_meets_another(folder, root, tenant) for root in roots if TENANT in root):
        raise WorktreeNotAllowed


def _meets_another(folder: PurePath, root: str, tenant: str) -> bool:
    """Whether a folder lies below the root of another tenant, or contains the roots of others."""
    parts = PurePath(root).parts
    at = next(index for index, part in enumerate(parts) if TENANT in part)
    before = PurePath(os.path.realpath(os.path.join(*parts[:at]) if at else "."))
    if folder == before or folder in before.parents:
        return True
    try:
        own, *rest = folder.relative_to(before).parts
    except ValueError:
        return False
    pattern = ".+".join(map(re.escape, parts[at].split(TENANT)))
    if own == parts[at].replace(TENANT, tenant) or re.fullmatch(pattern, own) is None:
        return False
    after = parts[at + 1 :]
    return tuple(rest[: len(after)]) == after[: len(rest)]
