"""What sessions of a template may reach. Each capability is checked as it is given; what comes of all of them is one list, the policy.

The default is nothing. A module is granted if the template exposes it or has an enabled capability for it; a function or a tool of this
process, if it has an enabled capability for it; a strategy package, if it has one for it or for all (`*`). A capability that is not enabled
denies, whatever else there is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.capabilities import masked_config, modules, shown_config
from holdfast.domain import Capability, CapabilityInvalid, InvalidValue, TemplateSpec
from holdfast.strategies import is_name
from holdfast.strategies.loading import ALL
from holdfast.strategies.loading import KIND as PACKAGES

_CONSOLE: Final = "console"
_MODULE: Final = "module"
_KINDS: Final = {_MODULE: "native module", "function": "function", "tool": "tool", PACKAGES: "package"}
_ALWAYS: Final = "it is always there"
_NOTHING: Final = "nothing grants it"
_DENIED: Final = "its capability is disabled, which denies it"
_EXPOSED: Final = "the template exposes it"
_ENABLED: Final = "its capability is enabled"
_ALL_DENIED: Final = f"the capability for {ALL} is disabled, which denies it"
_ALL_ENABLED: Final = f"the capability for {ALL} is enabled"


@dataclass(frozen=True, slots=True)
class Permission:
    """One line of a policy: what it is about, whether sessions have it, and why."""

    kind: str
    name: str
    granted: bool
    reason: str
    description: str = ""
    functions: tuple[str, ...] = ()
    """What scripts call, if it is a module."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """What holds for it, defaults and all, if it is granted. Secrets are hidden."""


class Policies:
    """Knows what this process has that a template may grant."""

    def __init__(self, functions: Sequence[str], tools: Sequence[str], grantable: frozenset[str] | None = None) -> None:
        self._functions, self._tools, self._grantable = tuple(functions), tuple(tools), grantable

    def confined(self, grantable: frozenset[str]) -> "Policies":
        """Return the same for whoever may grant only these modules, and no function or tool of this process."""
        return Policies(self._functions, self._tools, grantable)

    def check_grantable(self, kind: str, name: str, where: str = "") -> None:
        """Raise `CapabilityInvalid` unless the caller may grant this, or take it back: what an operator has granted stays so."""
        if self._grantable is None or kind == PACKAGES or (kind == _MODULE and name in (_CONSOLE, *self._grantable)):
            return
        there = ", ".join(sorted(self._grantable))
        raise _invalid(
            f"{where}name", f"is not something that this tenant may grant; it may grant the modules {there}, and packages"
        )

    def _check_config(self, name: str, config: Mapping[str, Any], where: str) -> None:
        """Raise `CapabilityInvalid` if a config reaches the host, and the caller is no operator. Nothing of the host is looked at."""
        fields = modules()[name].host_fields(config) if self._grantable is not None and name in modules() else []
        if fields:
            raise host_refusal(fields[0], where)

    @property
    def _names(self) -> dict[str, tuple[str, ...]]:
        return {_MODULE: (_CONSOLE, *modules()), "function": self._functions, "tool": self._tools}

    def settled(self, capability: Capability, where: str = "") -> Capability:
        """A capability as a template keeps it. `CapabilityInvalid` unless there is such a thing, and it takes this config: `where` goes
        before the path of the bad field. It may look at files.
        """
        kind, name, config = capability.kind, capability.name, capability.config
        if kind not in _KINDS:
            raise _invalid(f"{where}kind", f"must be one of {', '.join(_KINDS)}")
        if capability.enabled:
            self.check_grantable(kind, name, where)
        capability = capability._replace(by_operator=self._grantable is None)
        if kind == PACKAGES:
            return _settled_package(capability, where)
        if kind == _MODULE:  # also if it is not enabled: whether a folder is there would be told by an error
            self._check_config(name, config, where)
        known = self._names[kind]
        if name not in known:
            there = f"there is {', '.join(known)}" if known else "there is none"
            raise _invalid(f"{where}name", f"is not the name of a {_KINDS[kind]} of this process; {there}")
        try:
            if kind == _MODULE and name != _CONSOLE:
                return capability._replace(config=modules()[name].settle(config))
            if kind == _MODULE and config:
                raise InvalidValue("config must be empty: console has none")
        except InvalidValue as error:
            path = error.details.get("field", "config")
            raise CapabilityInvalid(f"{where}{error}").with_details(field=f"{where}{path}") from None
        return capability

    def of(self, spec: TemplateSpec) -> tuple[Permission, ...]:
        """The policy of a template: all that could be granted, and all that it names."""
        about = {(one.kind, one.name): one for one in spec.capabilities}
        here = self._names | {PACKAGES: (ALL, *(name for kind, name in about if kind == PACKAGES and name != ALL))}
        names = {kind: dict.fromkeys(known) for kind, known in here.items()}
        for name in spec.exposed:
            names[_MODULE].setdefault(name)
        for kind, name in about:
            names.setdefault(kind, {}).setdefault(name)
        return tuple(
            _permission(
                kind,
                name,
                about.get((kind, name)),
                exposed=kind == _MODULE and name in spec.exposed,
                wider=about.get((PACKAGES, ALL)) if kind == PACKAGES and name != ALL else None,
            )
            if name in here.get(kind, ())
            else _missing(kind, name)
            for kind, all_names in names.items()
            for name in all_names
        )


def _settled_package(capability: Capability, where: str) -> Capability:
    """It need not be there: packages come and go without templates."""
    if capability.name != ALL and not is_name(capability.name):
        raise _invalid(f"{where}name", f"must be the name of a package, or {ALL} for all")
    if capability.config:
        raise _invalid(f"{where}config", "must be empty: a package has none")
    return capability


def _permission(
    kind: str, name: str, capability: Capability | None, *, exposed: bool, wider: Capability | None = None
) -> Permission:
    if kind == _MODULE and name == _CONSOLE:
        return Permission(kind, name, True, _ALWAYS, "Writes to the session's events.")
    granted, reason = _verdict(capability, exposed=exposed, wider=wider)
    if kind == PACKAGES:
        return Permission(kind, name, granted, reason, "All strategy packages." if name == ALL else "A strategy package.")
    if kind != _MODULE:
        return Permission(kind, name, granted, reason, f"A {kind} of this process.")
    module, config = modules()[name], {}
    if granted:
        try:
            config = shown_config(module, {} if capability is None else capability.config)
        except InvalidValue as error:  # it was taken when it was added
            granted, reason = False, f"the module does not take its config any more: {error}"
    return Permission(kind, name, granted, reason, module.description, tuple(module.exports()), config)


def _missing(kind: str, name: str) -> Permission:
    reason = f"this process has no such {_KINDS[kind]}" if kind in _KINDS else "there is no such kind of capability"
    return Permission(kind, name, False, reason)


def _verdict(capability: Capability | None, *, exposed: bool, wider: Capability | None) -> tuple[bool, str]:
    if capability is not None and not capability.enabled:
        return False, _DENIED
    if wider is not None and not wider.enabled:
        return False, _ALL_DENIED
    there = {_EXPOSED: exposed, _ENABLED: capability is not None, _ALL_ENABLED: wider is not None}
    reasons = [reason for reason, holds in there.items() if holds]
    return bool(reasons), " and ".join(reasons) or _NOTHING


def host_refusal(field_name: str, where: str = "") -> CapabilityInvalid:
    """The error of a config that reaches the host, and was not set by an operator."""
    return _invalid(f"{where}config.{field_name}", "reaches the host; only an administrator of the default tenant may set it")


def _invalid(path: str, problem: str) -> CapabilityInvalid:
    return CapabilityInvalid(f"{path} {problem}").with_details(field=path)


def masked(capability: Capability) -> dict[str, Any]:
    """The config of a capability, with its secrets hidden."""
    if capability.kind == _MODULE and capability.config:
        return masked_config(modules().get(capability.name), capability.config)
    return dict(capability.config)
