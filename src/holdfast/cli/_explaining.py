"""What a script of a template can and cannot do, in sentences made of the template's policy."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

Config = Mapping[str, Any]


class _Words(NamedTuple):
    """How a module is told: all that it is for, and of a config what it lets scripts do, and what not."""

    whole: str
    can: Callable[[Config], list[str]]
    cannot: Callable[[Config], list[str]]


def explained(detail: Mapping[str, Any]) -> Iterator[str]:
    """The lines for a template as the API tells it."""
    template, limits, policy = detail["template"], detail["settings"]["limits"], detail["policy"]
    can = [line for one in policy if one["granted"] for line in _can(one)]
    cannot = [line for one in policy for line in _cannot(one)]
    yield f"A script of {template['name']} (version {template['version']}, {template['engine']}) can"
    yield from (f"  {line}" for line in can)
    yield "It cannot"
    yield from (f"  {line}" for line in cannot)
    yield "  reach anything else: no other file, program, address, variable or session"
    yield f"It may use {_bounds(limits)}."
    if not template["is_active"]:
        yield "No session can be made of this template: it is not active."


def _can(one: Mapping[str, Any]) -> Iterator[str]:
    why = f"({one['kind']} {one['name']}: {one['reason']})"
    known = _known(one)
    told = [_about(one)] if known is None else known.can(one["config"])
    for sentence in told:
        yield f"{sentence} {why}"


def _cannot(one: Mapping[str, Any]) -> Iterator[str]:
    known = _known(one)
    if not one["granted"]:
        yield f"{known.whole if known else _about(one)} ({one['kind']} {one['name']}: {one['reason']})"
    elif known:
        for sentence in known.cannot(one["config"]):
            yield f"{sentence} ({one['kind']} {one['name']}: by its config)"


def _known(one: Mapping[str, Any]) -> _Words | None:
    return _MODULES.get(one["name"]) if one["kind"] == "module" else None


def _about(one: Mapping[str, Any]) -> str:
    if one["kind"] == "packages":
        return "load strategy packages" if one["name"] == "*" else f"load the strategy package {one['name']}"
    if one["kind"] != "module":
        return f"{'call' if one['kind'] == 'function' else 'use'} the {one['kind']} {one['name']}"
    return f"use {one['name']}: {one['description'][:1].lower()}{one['description'][1:].rstrip('.')}"


def _fs_can(config: Config) -> list[str]:
    told = [f"read {'and write ' if config.get('write') else ''}files of its worktree"]
    for name, root in (config.get("roots") or {}).items():
        writes = isinstance(root, Mapping) and root.get("write")
        told.append(f"read {'and write ' if writes else ''}files below @{name}")
    return told


def _fs_cannot(config: Config) -> list[str]:
    return [] if config.get("write") else ["write files of its worktree"]


def _exec_can(config: Config) -> list[str]:
    return [f"run {_program(one)}" for one in config.get("programs") or ()]


def _program(one: Any) -> str:
    if not isinstance(one, Mapping):
        return f"{one}, with any arguments"
    patterns = one.get("args")
    if patterns is None:
        return f"{one.get('path')}, with any arguments"
    return f"{one.get('path')}, with {'arguments like: ' + ' '.join(patterns) if patterns else 'no arguments'}"


def _exec_cannot(config: Config) -> list[str]:
    return ["run any other program"] if config.get("programs") else ["run programs: none is named"]


def _http_can(config: Config) -> list[str]:
    return [f"make requests to {_address(one)}" for one in config.get("allow") or ()]


def _address(one: Mapping[str, Any]) -> str:
    port = f":{one['port']}" if one.get("port") else ""
    methods = one.get("methods")
    told = f" by {', '.join(methods)}" if methods else ""
    return f"{one.get('scheme') or 'https'}://{one.get('host')}{port}{one.get('path_prefix') or '/'}{told}"


def _http_cannot(config: Config) -> list[str]:
    if not config.get("allow"):
        return ["make requests: no address is allowed"]
    private = config.get("private")
    if private is True:
        return ["make requests to other addresses"]
    others = "other than " + ", ".join(private) if private else "whatever name leads there"
    return ["make requests to other addresses", f"make requests to private addresses, {others}"]


def _database_can(config: Config) -> list[str]:
    files = config.get("files")
    named = f" and in the files {', '.join(files)} of its worktree" if isinstance(files, list) and files else ""
    where = " and in files of its worktree" if files is True else named
    return [f"use SQLite databases in memory{where}", *(f"use the database {name}" for name in config.get("connections") or ())]


def _database_cannot(config: Config) -> list[str]:
    return [] if config.get("files") else ["use a database in a file of its worktree"]


def _env_can(config: Config) -> list[str]:
    names = [*(config.get("names") or ()), *(config.get("values") or ())]
    return [f"read the variables {', '.join(names)}"] if names else []


def _none(config: Config) -> list[str]:
    return []


def _always(sentence: str) -> Callable[[Config], list[str]]:
    return lambda config: [sentence]


_MODULES: Final[dict[str, _Words]] = {
    "console": _Words("write to its events", _always("write to its events"), _none),
    "fs": _Words("read or write files", _fs_can, _fs_cannot),
    "exec": _Words("run programs", _exec_can, _exec_cannot),
    "http": _Words("make requests over the network", _http_can, _http_cannot),
    "database": _Words("use a database", _database_can, _database_cannot),
    "state": _Words("keep values outside of its session's memory", _always("keep values by name, in the store"), _none),
    "env": _Words("read variables of the environment", _env_can, _always("read any other variable of the environment")),
}


def _bounds(limits: Mapping[str, Any]) -> str:
    told = {
        "wall_ms": "{} ms a step",
        "cpu_ms": "{} ms of computing",
        "mem_mb": "{} MB of memory",
        "max_events": "{} events",
        "max_output_kb": "{} KB of output",
    }
    parts = [text.format(limits[name]) for name, text in told.items() if limits.get(name)]
    return ", ".join(parts) or "as much as there is"
