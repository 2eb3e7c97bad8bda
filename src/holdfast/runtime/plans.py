"""Plans: what a request with an idempotency key is about to do, for what cannot be durable in one transaction with its reply.

Whoever is asked the same, in another process or after a crash, finds the plan of the first, and does that or recognises it as done.
They lie among the replies, and go with them.
"""

from typing import Any, Final

from holdfast.store import Reply, Store

_PREFIX: Final = "plan".ljust(201)
"""Longer than any key that callers may give, so that a plan is never taken for a reply."""


def plan(store: Store, reply: Reply, wanted: dict[str, Any], name: str = "") -> Reply | None:
    """The plan of the first who was asked this; `wanted` is this one's. None if it was so old that it went at once."""
    mine = reply._replace(key=_key(reply, name), outcome=wanted)
    store.put_reply(mine)
    return store.get_reply(mine.key)


def planned(store: Store, reply: Reply, name: str = "") -> Reply | None:
    """The plan of whoever was asked this before."""
    return store.get_reply(_key(reply, name))


def _key(reply: Reply, name: str) -> str:
    return f"{_PREFIX}{reply.key} {name}"
