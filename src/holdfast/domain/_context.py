"""What a script's `ctx` says about how it runs."""

from collections.abc import Mapping
from typing import Final

from holdfast.domain._budget import Budget

DEFAULT_NAMESPACE: Final = "default"


def namespace_of(ctx: object) -> str:
    """Where the script's lasting state lives: `ctx._ns`, if that is a text that is not empty.

    >>> namespace_of({"_ns": "reviews"}), namespace_of({"_ns": ""}), namespace_of(None)
    ('reviews', 'default', 'default')
    """
    given = ctx.get("_ns") if isinstance(ctx, Mapping) else None
    return given if isinstance(given, str) and given else DEFAULT_NAMESPACE


def budget_of(ctx: object) -> Budget | None:
    """The budget that `ctx.budget` sets. None if it sets no limit; `InvalidValue` if it makes no sense.

    >>> budget_of({"budget": {"max_llm_calls": 3}})
    Budget(max_llm_calls=3, max_elapsed_ms=None, max_tokens=None)
    """
    return Budget.parse(ctx.get("budget")) if isinstance(ctx, Mapping) else None
