"""Usage of tenants, tokens and families of forks, as rows: what commits add to it, and what a deletion gives back."""

from collections.abc import Iterable

from holdfast.domain import Amounts, Session
from holdfast.store._rows import Row, plain, read_plain
from holdfast.store.protocol import Commit, UsageRow, family_scope, tenant_scope

Charge = tuple[str, str, int]
"""scope, member, hour"""


def charges(commits: Iterable[Commit]) -> dict[Charge, list[int]]:
    """What commits add to the usage of scopes: CPU microseconds, steps, events, bytes, sessions. In an order that all processes share."""
    found: dict[Charge, list[int]] = {}
    for commit in commits:
        for charge, amounts in commit_charges(commit):
            known = found.get(charge)
            found[charge] = amounts if known is None else [old + new for old, new in zip(known, amounts, strict=True)]
    return dict(sorted(found.items()))


def commit_charges(commit: Commit) -> list[tuple[Charge, list[int]]]:
    """What one commit adds to the usage of scopes."""
    session, used, new = commit.session, commit.used, int(commit.expected is None)
    if used is None and not new:
        return []
    amounts, freed = ([0, 0, 0, 0], 0) if used is None else (list(used.amounts), used.freed)
    tenant = tenant_scope(plain(session.tenant))
    scopes = [(tenant, plain(session.token))]
    if session.usage.root is not None:
        scopes.append((family_scope(session.usage.root), ""))
    rows: list[tuple[Charge, list[int]]] = []
    for scope, member in scopes:
        rows.append(((scope, member, 0), [*amounts[:3], amounts[3] - freed, new]))
        if used is not None and any(amounts):
            rows.append(((scope, member, used.hour), [*amounts, 0]))
    return rows


def deleted_charges(session: Session) -> list[tuple[Charge, list[int]]]:
    """What the deletion of a session gives back: only what is stored; the time that it took is not given back."""
    usage = session.usage
    key = tenant_scope(plain(session.tenant)), plain(session.token), 0
    return [(key, [0, 0, -usage.stored_events, -usage.stored_bytes, -1])]


def usage_of(rows: Iterable[Row]) -> list[UsageRow]:
    """member, hour, CPU microseconds, steps, events, bytes, sessions"""
    return [UsageRow(read_plain(row[0]), row[1], Amounts(*map(int, row[2:6])), int(row[6])) for row in rows]
