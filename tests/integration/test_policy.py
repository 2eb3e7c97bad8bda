"""What a template grants: capabilities are checked as they are added, and what comes of them is one policy, the same on all surfaces."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal
from uuid import uuid4

import httpx2
import pytest

from holdfast import Capability, Client, Function, Holdfast, Tool, Worktree
from holdfast.capabilities import NativeModule, effect, modules
from holdfast.domain import CapabilityInvalid, EffectKind, InvalidValue, Principal, WorktreeNotAllowed
from tests.acceptance.scenes import refused, scene
from tests.http_server import Served, served
from tests.integration.cli_process import Terminal

SECRET = "postgresql://user:hunter2@db/x"


@dataclass(frozen=True, slots=True)
class Door:
    """One part of a config."""

    name: str
    code: str = field(default="", metadata={"secret": True})
    floors: tuple[int, ...] = ()
    way: Literal["in", "out"] = "in"

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidValue("name must not be blank")


@dataclass(frozen=True, slots=True)
class HouseConfig:
    """All kinds of parts."""

    open: bool = False
    doors: tuple[str | Door, ...] = ()
    keys: dict[str, Door] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict, metadata={"secret": True})

    def __post_init__(self) -> None:
        if len(self.doors) > 3:
            raise InvalidValue("doors[3] is one too many")


class House(NativeModule):
    """A module of another package."""

    name: ClassVar[str] = "house"
    description: ClassVar[str] = "Opens doors."
    config_type: ClassVar[type[Any]] = HouseConfig

    @effect(EffectKind.READ)
    def enter(self) -> bool:
        return bool(self.config.open)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    known: Any = modules()
    known["house"] = House
    try:
        with served(tmp_path_factory.mktemp("policy")) as server:
            yield server
    finally:
        del known["house"]


@pytest.fixture(scope="module")
def api(server: Served) -> Iterator[httpx2.Client]:
    with server.client() as client:
        yield client


def new_template(api: httpx2.Client) -> str:
    answer = api.post("/templates", json={"name": f"t {uuid4()}"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def add(api: httpx2.Client, template: str, name: str, config: Any = None, *, kind: str = "module", enabled: bool = True) -> Any:
    body = {"kind": kind, "name": name, "enabled": enabled, "config": config or {}}
    return api.post(f"/templates/{template}/capabilities", json=body)


def policy(api: httpx2.Client, template: str) -> dict[str, Any]:
    return {one["name"]: one for one in api.get(f"/templates/{template}").json()["policy"]}


@pytest.fixture(scope="module")
def empty(api: httpx2.Client) -> str:
    return new_template(api)


# ---- what is refused ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "config", "path"),
    [
        ("host", "fs", {}, "kind"),
        ("Module", "fs", {}, "kind"),
        ("module", "nobody", {}, "name"),
        ("module", "FS", {}, "name"),
        ("module", "json", {}, "name"),
        ("function", "shop.price", {}, "name"),
        ("tool", "ship", {}, "name"),
        ("module", "console", {"level": "warn"}, "config"),
        ("module", "fs", {"wirte": True}, "config.wirte"),
        ("module", "fs", {"write": 1}, "config.write"),
        ("module", "fs", {"timeout_ms": 0}, "config.timeout_ms"),
        ("module", "exec", {"programs": ["/nowhere/at/all"]}, "config.programs[0]"),
        ("module", "http", {"allow": [{"host": "a.example", "port": 0}]}, "config.allow[0].port"),
        ("module", "database", {"connections": {"main": {"driver": "oracle"}}}, "config.connections.main.driver"),
        ("module", "house", {"doors": "front"}, "config.doors"),
        ("module", "house", {"doors": ["front", 7]}, "config.doors[1]"),
        ("module", "house", {"doors": [{"name": "a", "floors": [1, "2"]}]}, "config.doors[0].floors[1]"),
        ("module", "house", {"doors": [{"name": "a", "way": "up"}]}, "config.doors[0].way"),
        ("module", "house", {"doors": [{"name": ""}]}, "config.doors[0].name"),
        ("module", "house", {"doors": [{}]}, "config.doors[0].name"),
        ("module", "house", {"doors": [{"name": "a", "nmae": "b"}]}, "config.doors[0].nmae"),
        ("module", "house", {"doors": ["a", "b", "c", "d"]}, "config.doors[3]"),
        ("module", "house", {"keys": {"front": {"name": 3}}}, "config.keys.front.name"),
        ("module", "house", {"keys": {"a b": "x"}}, 'config.keys["a b"]'),
        ("module", "house", {"words": {"a": None}}, "config.words.a"),
    ],
)
def test_what_is_wrong_is_told_by_its_path(
    api: httpx2.Client, empty: str, kind: str, name: str, config: dict[str, Any], path: str
) -> None:
    answer = add(api, empty, name, config, kind=kind)
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert (error["code"], error["details"]["field"]) == ("CAPABILITY_INVALID", path)
    assert error["message"].startswith(path)
    assert api.get(f"/templates/{empty}").json()["capabilities"] == []


@scene
async def test_functions_and_tools_are_those_of_this_process() -> None:
    def price(item: str) -> int:
        return len(item)

    async def ship(args: Any) -> str:
        return str(args)

    async with Holdfast.open(functions=[Function("shop.price", price)], tools=[Tool("ship", ship)]) as hf:
        good = [Capability("function", "shop.price"), Capability("tool", "ship", enabled=False)]
        await hf.templates.create("t", capabilities=good)
        found = {one.name: (one.kind, one.granted) for one in await hf.templates.policy("t")}
        assert (found["shop.price"], found["ship"]) == (("function", True), ("tool", False))
        for bad, path in (("shop.pay", "capabilities[2].name"), ("ship", "capabilities[2].name")):
            with pytest.raises(CapabilityInvalid) as told:
                await hf.templates.update("t", capabilities=[*good, Capability("function", bad)])
            assert told.value.details == {"field": path}
        assert (await hf.templates.get("t")).latest == 1
        with refused("CAPABILITY_INVALID"):
            await hf.templates.create("u", capabilities=[Capability("module", "fs", config={"write": "yes"})])
        with refused("TEMPLATE_NOT_FOUND"):
            await hf.templates.policy("u")


# ---- the policy --------------------------------------------------------------------------------------------------------------------


def test_the_default_is_nothing(api: httpx2.Client, empty: str) -> None:
    found = policy(api, empty)
    assert {"console", "fs", "exec", "database", "house"} <= found.keys()
    assert [name for name, one in found.items() if one["granted"]] == ["console"]
    assert {(one["reason"], str(one["config"])) for name, one in found.items() if name != "console"} == {
        ("nothing grants it", "{}")
    }


def test_every_grant_has_its_reason_and_what_holds(api: httpx2.Client) -> None:
    template = new_template(api)
    assert api.post(f"/templates/{template}/modules", json={"name": "fs"}).status_code == 201
    assert api.post(f"/templates/{template}/modules", json={"name": "exec"}).status_code == 201
    assert add(api, template, "house", {"open": True, "timeout_ms": 5}).status_code == 201
    assert add(api, template, "exec", enabled=False).status_code == 201
    found = policy(api, template)
    assert (found["fs"]["granted"], found["fs"]["reason"]) == (True, "the template exposes it")
    assert found["fs"]["config"]["write"] is False  # the defaults are told
    assert (found["exec"]["granted"], found["exec"]["reason"]) == (False, "its capability is disabled, which denies it")
    assert found["house"] == {
        "kind": "module",
        "name": "house",
        "granted": True,
        "reason": "its capability is enabled",
        "description": "Opens doors.",
        "functions": ["enter"],
        "config": {"open": True, "doors": [], "keys": {}, "words": {}, "timeout_ms": 5, "max_calls": House.max_calls},
    }
    assert add(api, template, "fs", {"write": True}).status_code == 201
    both = policy(api, template)["fs"]
    assert (both["reason"], both["config"]["write"]) == ("the template exposes it and its capability is enabled", True)


def test_the_policy_is_what_scripts_meet(api: httpx2.Client) -> None:
    """Each module that is there can be required, and none of the others."""
    template = new_template(api)
    api.post(f"/templates/{template}/modules", json={"name": "exec"})
    add(api, template, "house", {"open": True})
    add(api, template, "exec", enabled=False)
    session = api.post("/sessions", json={"template_id": template}).json()["id"]
    told = policy(api, template)
    for name in ("fs", "exec", "house"):
        run = {"session_id": session, "input": f"typeof require('{name}')"}
        status = api.post("/executions/repl", json=run).json()["status"]
        assert (status == "ok") is told[name]["granted"], name


def test_what_this_process_does_not_have_is_not_granted(
    server: Served, api: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = new_template(api)
    api.post(f"/templates/{template}/modules", json={"name": "house"})
    add(api, template, "house", {"keys": {"front": {"name": "x", "code": SECRET}}})
    monkeypatch.delitem(modules(), "house")  # type: ignore[arg-type]
    found = policy(api, template)["house"]
    assert (found["granted"], found["reason"]) == (False, "this process has no such native module")
    assert SECRET not in api.get(f"/templates/{template}").text  # nobody knows any more what is secret


def test_a_config_that_is_not_taken_any_more_grants_nothing(api: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    template = new_template(api)
    add(api, template, "house", {"open": True})
    monkeypatch.setattr(House, "config_type", Door)
    found = policy(api, template)["house"]
    assert (found["granted"], found["config"]) == (False, {})
    assert "config.open" in found["reason"]


# ---- secrets -----------------------------------------------------------------------------------------------------------------------


def test_no_answer_has_a_secret(server: Served, api: httpx2.Client) -> None:
    template = new_template(api)
    config = {
        "doors": ["back", {"name": "front", "code": SECRET}, {"name": "side"}],
        "keys": {"master": {"name": "all", "code": SECRET}},
        "words": {"magic": SECRET},
    }
    added = add(api, template, "house", config)
    assert added.status_code == 201
    hidden = {
        "doors": ["back", {"name": "front", "code": "***"}, {"name": "side"}],
        "keys": {"master": {"name": "all", "code": "***"}},
        "words": {"magic": "***"},
    }
    assert added.json()["config"] == hidden
    assert policy(api, template)["house"]["config"]["doors"][1] == {
        "name": "front",
        "code": "***",
        "floors": [],
        "way": "in",
    }
    assert policy(api, template)["house"]["config"]["doors"][2]["code"] == ""  # what is not set is no secret
    clone = api.post(f"/templates/{template}/clone", json={"name": f"c {uuid4()}"}).json()["id"]
    for one in (template, clone):
        for path in ("", "/capabilities", "/versions", "/settings", "/versions/1"):
            answer = api.get(f"/templates/{one}{path}")
            assert answer.status_code == 200
            assert "hunter2" not in answer.text, path
    kept = server.do(server.hf.templates.version(clone)).spec.capabilities[0]
    assert kept.config == config  # the module gets what was given
    refused_twice = add(api, template, "house", config)
    assert refused_twice.status_code == 409
    assert "hunter2" not in refused_twice.text


# ---- the client and the command line -----------------------------------------------------------------------------------------------


@pytest.fixture
def holdfast(server: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("HOLDFAST_SERVER_URL", server.url)
    monkeypatch.setenv("HOLDFAST_TOKEN", server.token)
    return Terminal(capsys)


def test_the_command_line_shows_and_explains(server: Served, api: httpx2.Client, holdfast: Terminal) -> None:
    template = new_template(api)
    holdfast("template", "add-capability", template, "--name", "fs", "--config", '{"write": true}')
    holdfast("template", "add-capability", template, "--name", "house", "--config", json.dumps({"words": {"a": SECRET}}))
    holdfast("template", "add-capability", template, "--name", "exec", "--config", '{"programs": ["/bin/echo"]}')
    holdfast("template", "add-capability", template, "--name", "database", "--disabled")
    with Client(server.url, token=server.token) as client:
        detail = client.templates.get(template)
        granted = {one.name for one in detail.policy if one.granted}
        with pytest.raises(CapabilityInvalid) as told:
            client.templates.add_capability(template, "module", "console", config={"x": 1})
        assert told.value.details["field"] == "config"
    assert granted == {"console", "fs", "house", "exec"}
    shown = holdfast("template", "show", template).out
    lines = {line.split()[1]: line for line in shown.splitlines() if line.startswith("module ")}
    assert lines["fs"].split()[2] == "yes"
    assert "its capability is enabled" in lines["fs"]
    assert lines["database"].split()[2] == "no"
    assert "which denies it" in lines["database"]
    told_lines = holdfast("template", "explain", template).out.splitlines()
    at = told_lines.index("It cannot")
    can, cannot = "\n".join(told_lines[:at]), "\n".join(told_lines[at:])
    assert "read and write files of its worktree (module fs: its capability is enabled)" in can
    assert "run /bin/echo" in can
    assert "use house: opens doors (module house: its capability is enabled)" in can
    assert "use a database (module database: its capability is disabled, which denies it)" in cannot
    assert "run any other program" in cannot
    assert "write files" not in cannot
    assert "make requests over the network (module http: nothing grants it)" in cannot
    assert "hunter2" not in shown + "\n".join(told_lines)


# ---- worktrees -------------------------------------------------------------------------------------------------------------------------


def _session(api: httpx2.Client, template: str, path: Path | str) -> tuple[int, str]:
    body = {"template_id": template, "workspace_id": "w", "base_commit_oid": "c", "worktree_path": str(path)}
    answer = api.post("/sessions", json=body)
    return answer.status_code, answer.json().get("error", {}).get("code", "")


def test_only_admins_name_any_folder(server: Served, api: httpx2.Client, empty: str, tmp_path: Path) -> None:
    below = server.config.data_dir / "worktrees" / "mine"
    below.mkdir(parents=True, exist_ok=True)
    (below / "out").symlink_to(tmp_path)
    assert _session(api, empty, tmp_path) == (201, "")
    with server.client(server.made("runner", "run")) as runner:
        assert _session(runner, empty, below) == (201, "")
        assert _session(runner, empty, below / "nothing") == (422, "WORKTREE_NOT_FOUND")
        outside = [
            tmp_path,
            tmp_path / "nothing",
            below / "out",
            below / ".." / "..",
            server.config.data_dir,
            server.config.data_dir / "worktrees",
            f"{server.config.data_dir}/worktrees-of-others",
            "/",
        ]
        for path in outside:
            assert _session(runner, empty, path) == (403, "WORKTREE_NOT_ALLOWED"), path


def test_roots_bind_admins_too(
    server: Served, api: httpx2.Client, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "root" / "tree").mkdir(parents=True)
    config = replace(server.config, worktree_roots=(str(tmp_path / "root"),))
    monkeypatch.setattr(server.app.state, "config", config)
    assert _session(api, empty, tmp_path / "root" / "tree") == (201, "")
    assert _session(api, empty, tmp_path) == (403, "WORKTREE_NOT_ALLOWED")
    with server.client(server.made("second runner", "run")) as runner:
        assert _session(runner, empty, tmp_path / "root" / "tree") == (201, "")
        assert _session(runner, empty, server.config.data_dir / "worktrees" / "mine") == (403, "WORKTREE_NOT_ALLOWED")


@scene
async def test_roots_hold_after_all_links(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root / "tree", other):
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(root)
    async with Holdfast.open() as hf:
        await hf.templates.create("t")
        made = await hf.sessions.create(
            "t", worktree=Worktree("w", "c", str(root / "tree")), worktree_roots=[str(tmp_path / "link")]
        )
        assert made.worktree is not None
        for path in (root, other, f"{root}/tree/../../other", f"{root}/tree/\0", f"{root}/" + "x" * 5000):
            with pytest.raises((WorktreeNotAllowed, InvalidValue)):
                await hf.sessions.create("t", worktree=Worktree("w", "c", str(path)), worktree_roots=[str(root)])
        with refused("WORKTREE_NOT_ALLOWED"):
            await hf.sessions.create("t", worktree=Worktree("w", "c", str(root / "tree")), worktree_roots=[])


# ---- what reaches the host ---------------------------------------------------------------------------------------------------------


def test_a_module_that_does_not_say_otherwise_reaches_the_host_with_every_field() -> None:
    assert House.host_fields({"open": False, "timeout_ms": 5}) == []
    assert House.host_fields({"open": True, "other": 1}) == ["open", "other"]


def test_a_template_of_a_tenant_that_reaches_the_host_is_not_used_whoever_stored_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("s3cret")
    code = "require('fs').readFileSync('@x/a.txt')"

    async def go() -> None:
        async with Holdfast.open("memory:") as hf:
            mine = hf.scoped(Principal("a"))
            operator = hf.scoped(Principal("a"), operator=True)
            roots = {"roots": {"x": {"folder": str(tmp_path.resolve())}}}
            with pytest.raises(CapabilityInvalid, match="reaches the host"):
                await mine.templates.create("t", capabilities=[Capability("module", "fs", config=roots, by_operator=True)])
            template = await operator.templates.create("t", capabilities=[Capability("module", "fs", config=roots)])
            session = await mine.sessions.create(template.id)
            ran = await mine.executions.run(session.id, code)
            assert ran.execution.error is None, "what an operator grants to a tenant holds"

            version = await mine.templates.version(template.id)
            stored = tuple(one._replace(by_operator=False) for one in version.spec.capabilities)
            store = hf._opened().store
            store.add_version(replace(version, number=2, spec=replace(version.spec, capabilities=stored)), 1)
            for number in (None, 2):
                with pytest.raises(CapabilityInvalid, match="reaches the host"):
                    await mine.sessions.create(template.id, version=number)
            grants = hf._opened().core.shelf.get(template.id, 2).native
            assert grants == (), "a session of it that is there already has no such module"

    asyncio.run(go())
