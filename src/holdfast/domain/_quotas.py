"""Quotas: how much the sessions of a tenant, and those that a token has made, may use together."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Self

from holdfast.domain._errors import Fault, HoldfastError, InvalidValue
from holdfast.domain._principal import Principal

_MOST: Final = 1 << 50


@dataclass(frozen=True, slots=True)
class Quota:
    """Quotas of a tenant or a token. Zero is no limit.

    `executions` run at a time; `cpu_s_per_hour` is CPU time in an hour of the clock; `sessions`, `events` and `mb` are what is stored;
    `requests_per_s` holds for the requests to one daemon.
    """

    executions: int = 0
    cpu_s_per_hour: float = 0
    sessions: int = 0
    events: int = 0
    mb: float = 0
    requests_per_s: float = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            kinds = (int,) if each.type is int or each.type == "int" else (int, float)
            if type(value) not in kinds or not 0 <= value <= _MOST:
                kind = "a whole number" if kinds == (int,) else "a number"
                raise InvalidValue(f"quota {each.name} must be {kind} that is not negative, not {repr(value)[:40]}")

    @classmethod
    def parse(cls, given: object, base: "Quota | None" = None) -> Self:
        """Read a quota from a mapping. What is not in it is as in `base`."""
        known = [each.name for each in fields(cls)]
        if not isinstance(given, Mapping):
            raise InvalidValue(f"a quota is a table with {', '.join(known)}, all optional")
        for name in given:
            if name not in known:
                raise InvalidValue(f"there is no quota {str(name)[:60]!r}; expected are {', '.join(known)}")
        return cls(**(({} if base is None else asdict(base)) | dict(given)))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_NO_QUOTA: Final = Quota()


@dataclass(frozen=True, slots=True)
class Quotas:
    """Quotas of all tenants and tokens: by default, and of those that are named. Tokens are named by their ids.

    >>> quotas = Quotas.parse({"tenant": {"sessions": 10}, "tenants": {"acme": {"events": 5}}})
    >>> quotas.of_tenant("acme")
    Quota(executions=0, cpu_s_per_hour=0, sessions=10, events=5, mb=0, requests_per_s=0)
    """

    tenant: Quota = _NO_QUOTA
    token: Quota = _NO_QUOTA
    tenants: Mapping[str, Quota] = field(default_factory=dict)
    tokens: Mapping[str, Quota] = field(default_factory=dict)

    @classmethod
    def parse(cls, given: object) -> Self:
        """Read quotas from a table such as that of a configuration file: `tenant`, `token`, `tenants.NAME`, `tokens.ID`."""
        if not isinstance(given, Mapping):
            raise InvalidValue("quotas are a table with tenant, token, tenants and tokens, all optional")
        for name in given:
            if name not in ("tenant", "token", "tenants", "tokens"):
                raise InvalidValue(f"quotas have no {str(name)[:60]!r}; expected are tenant, token, tenants and tokens")
        base = {kind: Quota.parse(given.get(kind, {})) for kind in ("tenant", "token")}
        named = {kind: _named(kind, given.get(f"{kind}s", {}), base[kind]) for kind in base}
        return cls(base["tenant"], base["token"], named["tenant"], named["token"])

    def of_tenant(self, tenant: str) -> Quota:
        return self.tenants.get(tenant, self.tenant)

    def of_token(self, token: str) -> Quota:
        """Return the quota of a token; the embedded library, which uses none, has no quota of its own."""
        return self.tokens.get(token, self.token) if token else _NO_QUOTA

    def of(self, principal: Principal) -> tuple[Quota, Quota] | None:
        """Return the quotas of a tenant and of a token; None if neither has any."""
        found = self.of_tenant(principal.tenant), self.of_token(principal.token)
        return None if found[0] == found[1] == _NO_QUOTA else found


def _named(kind: str, given: object, base: Quota) -> dict[str, Quota]:
    if not isinstance(given, Mapping):
        raise InvalidValue(f"quotas.{kind}s is a table of tables, by the names of {kind}s")
    return {str(name): Quota.parse(quota, base) for name, quota in given.items()}


class QuotaExceeded(HoldfastError):
    """A quota is used up. `details` has the quota, whose it is, the limit, what was used, and when to come back."""

    code = "QUOTA_EXCEEDED"
    fault = Fault.CALLER

    @classmethod
    def of(cls, scope: str, quota: str, limit: float, used: float, retry_after: int | None = None) -> Self:
        """Return the error for a quota of `scope`: "tenant" or "token"."""
        when = "" if retry_after is None else f"; come back in {retry_after} s"
        error = cls(f"the quota {quota} of this {scope} is used up: {limit:g} allowed, {used:g} used{when}")
        error.with_details(quota=quota, scope=scope, limit=limit, used=used)
        if retry_after is not None:
            error.retry_after = retry_after
            error.with_details(retry_after=retry_after)
        return error
