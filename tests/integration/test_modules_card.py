"""The module `card`: lines 50 and 69 to 72 of algocline's conformance list, restated where they are fixed, in both languages."""

import asyncio
import itertools
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from holdfast import Capability, Holdfast, Limits, Settings
from holdfast._version import VERSION
from holdfast.capabilities.cards.making import short_model
from holdfast.capabilities.cards.module import Card, CardConfig
from holdfast.domain import InvalidValue, hidden_root, shared_root, template_root
from tests.acceptance.scenes import Clock, elsewhere, opened, scene, value

JS, LUA = "javascript", "lua"
both = pytest.mark.parametrize("language", [LUA, JS])
names = itertools.count()


class Cards:
    """A session whose template grants cards, and their functions, called as scripts do."""

    def __init__(self, hf: Holdfast, session: UUID, language: str) -> None:
        self.hf, self.session, self.language = hf, session, language

    async def call(self, function: str, *arguments: Any) -> Any:
        """What a function gives, or the code and the message of its error."""
        listed = ", ".join([repr(f"card.{function}"), *(written(self.language, one) for one in arguments)])
        source = f"return alc.call({listed})" if self.language == LUA else f"hf.call({listed})"
        turn = await self.hf.executions.run(self.session, source)
        error = turn.execution.error
        return value(turn) if error is None else (error.get("code"), error["message"])

    async def create(self, **card: Any) -> Any:
        made = await self.call("create", {"pkg": {"name": "sc"}} | card)
        return made if isinstance(made, tuple) else made["card_id"]

    async def ids(self, function: str, *arguments: Any) -> list[str]:
        return [row["card_id"] for row in await self.call(function, *arguments)]


def written(language: str, given: Any) -> str:
    """A value as a literal of a language."""
    if given is None:
        return "alc.null" if language == LUA else "null"
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, dict):
        join = " = " if language == LUA else ": "
        quote = "[{!r}]" if language == LUA else "{!r}"
        return "{" + ", ".join(quote.format(key) + join + written(language, one) for key, one in given.items()) + "}"
    if isinstance(given, list):
        listed = ", ".join(written(language, one) for one in given)
        return f"alc.array({{{listed}}})" if language == LUA else f"[{listed}]"
    return repr(given)


async def cards(hf: Holdfast, language: str, template: str | None = None, limits: Limits | None = None, **config: Any) -> Cards:
    if template is None:
        template = f"t{next(names)}"
        granted = [Capability("module", "card", True, config), Capability("module", "state", True, {})]
        await hf.templates.create(template, language=language, capabilities=granted, limits=limits)  # type: ignore[arg-type]
    return Cards(hf, (await hf.sessions.create(template)).id, language)


@both
@scene
async def test_line_50_and_69_a_card_is_made_and_found(language: str) -> None:
    clock = Clock()
    async with opened("memory:", settings=Settings(clock=clock)) as hf:
        here = await cards(hf, language)
        made = await here.call("create", {"pkg": {"name": "sc"}})
        name = made["card_id"]
        assert made["path"] == f"cards/sc/{name}"  # fixed: no path of the host
        first, model, moment, digest = name.split("_")
        assert (first, model, moment, len(digest)) == ("sc", "model", "20270115T080000", 6)
        assert int(digest, 16) >= 0
        assert await here.call("get", name) == {
            "schema_version": "card/v0",
            "card_id": name,
            "created_at": "2027-01-15T08:00:00Z",
            "created_by": f"holdfast@{VERSION}",
            "pkg": {"name": "sc"},
        }
        assert await here.call("get", "missing") is None
        assert await here.call("create", {}) == ("CARD_INVALID", "alc.card.create: pkg.name is required")
        assert await here.call("create", "text") == ("INVALID_ARGUMENT", "alc.card.create: input must be a table")
        assert await here.create(card_id="fixed") == "fixed"
        said = await here.create(card_id="fixed", pkg={"name": "other"})
        assert said == ("CARD_EXISTS", "alc.card.create: card 'fixed' already exists (immutable)")

        full = {"model": {"id": "claude-opus-4-6"}, "scenario": {"name": "gsm"}, "stats": {"pass_rate": 0.5, "n": 4}}
        clock.now += 1000
        rich = await here.create(**full, params={"b": 1.0, "a": [1, 2]}, nothing=None, inner={"x": None, "y": [1, None]})
        assert rich.startswith("sc_opus46_20270115T080001_")
        found = await here.call("get", rich)
        assert (found["inner"], "nothing" in found) == ({"y": [1]}, False)
        again = await here.call("get", await here.create(params={"a": [1, 2], "b": 1}, stats={"pass_rate": 1}))
        assert found["param_fingerprint"] == again["param_fingerprint"]
        assert len(found["param_fingerprint"]) == 16
        rows = await here.call("list")
        assert [row["card_id"] for row in rows] == [
            *sorted([rich, again["card_id"]], reverse=True),
            *sorted([name, "fixed"], reverse=True),
        ]
        assert next(row for row in rows if row["card_id"] == rich) == {
            "card_id": rich,
            "pkg": "sc",
            "created_at": "2027-01-15T08:00:01Z",
            "model": "claude-opus-4-6",
            "scenario": "gsm",
            "pass_rate": 0.5,
        }
        one, other, third = [await here.create(stats={"pass_rate": rate}) for rate in (0.1, 0.2, 0.1)]
        assert len({one, other, third}) == 3  # fixed: also two that say the same in one second
        old = await here.create(pkg={"name": "b"}, card_id="old", created_at="2025-01-01T00:00:00Z", created_by="me")
        assert (await here.ids("list"))[-1] == old
        assert (await here.ids("list", {"pkg": "b"}), await here.ids("list", {"pkg": "none"})) == (["old"], [])
        assert (await here.call("get", old))["created_by"] == "me"


def test_line_69_short_names_of_models() -> None:
    assert [short_model(model) for model in ("claude-opus-4-6", "gpt-4o", "", "---")] == ["opus46", "4o", "model", "model"]


@both
@scene
async def test_line_70_append_and_aliases(language: str) -> None:
    clock = Clock()
    async with opened("memory:", settings=Settings(clock=clock)) as hf:
        here = await cards(hf, language)
        name = await here.create(stats={"pass_rate": 0.5})
        merged = await here.call("append", name, {"caveats": {"notes": "later"}, "model": {"id": "m"}, "none": None})
        assert merged == await here.call("get", name)
        assert (merged["caveats"], merged["stats"], "none" in merged) == ({"notes": "later"}, {"pass_rate": 0.5}, False)
        assert (await here.call("list"))[0]["model"] == "m"
        said = await here.call("append", name, {"fresh": 1, "stats": {"pass_rate": 1}})
        assert said == ("CARD_IMMUTABLE", f"alc.card.append: key 'stats' already set on card '{name}' (immutable)")
        assert await here.call("get", name) == merged
        assert await here.call("append", "missing", {"x": 1}) == ("CARD_NOT_FOUND", "alc.card.append: card 'missing' not found")
        assert await here.call("append", name, "x") == ("INVALID_ARGUMENT", "alc.card.append: fields must be a table")

        alias = {"name": "best", "card_id": name, "pkg": "sc", "set_at": "2027-01-15T08:00:00Z", "note": "smoke"}
        assert await here.call("alias_set", "best", name, {"pkg": "sc", "note": "smoke"}) == alias
        assert await here.call("alias_list") == [alias]
        assert await here.call("get_by_alias", "best") == merged
        other = await here.create(card_id="other")
        await here.call("alias_set", "best", other, {"pkg": "sc"})
        await here.call("alias_set", "worst", other)
        assert [(row["name"], row["card_id"]) for row in await here.call("alias_list")] == [("best", other), ("worst", other)]
        assert [row["name"] for row in await here.call("alias_list", {"pkg": "sc"})] == ["best"]
        assert await here.call("alias_set", "x", "missing") == (
            "CARD_NOT_FOUND",
            "alc.card.alias_set: card 'missing' not found",
        )
        assert await here.call("get_by_alias", "unknown") is None


@both
@scene
async def test_line_71_find(language: str) -> None:
    async with opened("memory:", settings=Settings(clock=Clock())) as hf:
        here = await cards(hf, language)
        for name, rate, scenario, more in [
            ("a", 0.4, "gsm8k", {"tags": ["x"], "ok": True}),
            ("b", 0.9, "gsm8k", {"note": "good run"}),
            ("c", 1, "other", {"note": "better"}),
            ("d", None, "gsm8k", {}),
        ]:
            stats = {"n": 3} if rate is None else {"pass_rate": rate, "n": 2}
            await here.create(card_id=name, scenario={"name": scenario}, stats=stats, **more)

        async def find(**query: Any) -> list[str]:
            return await here.ids("find", query)

        assert await find() == ["d", "c", "b", "a"]
        assert await here.ids("find") == ["d", "c", "b", "a"]
        assert await find(where={}) == ["d", "c", "b", "a"]
        for where, expected in [
            ({"scenario": {"name": "gsm8k"}}, "dba"),
            ({"stats": {"pass_rate": {"gte": 0.9}}}, "cb"),
            ({"stats": {"pass_rate": {"gt": 0.4, "lt": 1.0}}}, "b"),
            ({"stats": {"pass_rate": {"lte": 0.4}}}, "a"),
            ({"_or": [{"card_id": "a"}, {"stats": {"n": 3}}]}, "da"),
            ({"_and": [{"_not": {"scenario": {"name": "other"}}}, {"stats": {"_or": [{"n": 3.0}, {"pass_rate": 0.4}]}}]}, "da"),
            ({"note": {"contains": "good"}}, "b"),
            ({"note": {"starts_with": "bet"}}, "c"),
            ({"note": {"ne": "better"}}, "dba"),  # ne is true of what is missing
            ({"card_id": {"in": ["a", "b", 1]}}, "ba"),
            ({"stats": {"pass_rate": {"nin": [1, 0.4]}}}, "db"),
            ({"stats": {"pass_rate": {"exists": False}}}, "d"),
            ({"stats": {"pass_rate": {"exists": True}}}, "cba"),
            ({"tags": ["x"]}, "a"),
            ({"ok": True}, "a"),
            ({"ok": 1}, ""),
            ({"note": {"gt": 1}}, ""),  # what cannot be compared is not greater
            ({"stats": {"deep": {"er": 1}}}, ""),
        ]:  # fmt: skip
            assert "".join(await find(where=where)) == expected, where
        assert await find(order_by="stats.pass_rate") == ["a", "b", "c", "d"]
        assert await find(order_by="-stats.pass_rate") == ["c", "b", "a", "d"]  # fixed: what is missing is last both ways
        assert await find(order_by=["scenario.name", "-stats.pass_rate"]) == ["b", "a", "d", "c"]
        assert await find(where={"scenario": {"name": "gsm8k"}}, offset=1, limit=1) == ["b"]
        assert await find(offset=3) == ["a"]
        assert await find(offset=9) == []
        assert await find(limit=0) == []
        assert await find(pkg="sc", limit=2) == ["d", "c"]
        assert await find(pkg="none") == []
        for query, message in [
            ({"where": "x"}, "where must be an object"),
            ({"where": {"_or": 1}}, "where: _or must be a list"),
            ({"where": {"_not": 1}}, "where must be an object"),
            ({"where": {"a": {"in": 1}}}, "where: in must be a list"),
            ({"order_by": 1}, "order_by must be a string or array of strings"),
            ({"order_by": [1]}, "order_by array must contain strings"),
            ({"order_by": "a..b"}, "invalid order_by key: 'a..b'"),
            ({"limit": -1}, "card.find: options.limit must not be negative"),
            ({"sort": "x"}, "card.find: options.sort is not known here; there is where, offset, limit, pkg, order_by"),
        ]:
            assert await here.call("find", query) == ("INVALID_ARGUMENT", message), query


@both
@scene
async def test_line_72_lineage_and_samples(language: str) -> None:
    async with opened("memory:", settings=Settings(clock=Clock())) as hf:
        here = await cards(hf, language)

        async def child(name: str, prior: str, relation: str | None = None, **more: Any) -> None:
            links = {"prior_card_id": prior} | ({} if relation is None else {"prior_relation": relation})
            await here.create(card_id=name, metadata=links, **more)

        await here.create(card_id="a")
        await child("b", "a", "rerun", stats={"pass_rate": 1})
        await child("c", "b", "sweep")
        await child("d", "b")
        await child("e", "gone")

        async def walk(card_id: str, **options: Any) -> tuple[list[Any], list[Any], bool]:
            found = await here.call("lineage", {"card_id": card_id} | options)
            assert found["root"] == card_id
            edges = [(edge["from"], edge["to"], edge.get("relation")) for edge in found["edges"]]
            return [(node["card_id"], node["depth"]) for node in found["nodes"]], edges, found["truncated"]

        assert await walk("c") == ([("c", 0), ("b", -1), ("a", -2)], [("c", "b", "sweep"), ("b", "a", "rerun")], False)
        assert await walk("a", direction="down") == (
            [("a", 0), ("b", 1), ("c", 2), ("d", 2)],
            [("b", "a", "rerun"), ("c", "b", "sweep"), ("d", "b", None)],
            False,
        )
        assert await walk("b", direction="both") == (
            [("b", 0), ("a", -1), ("c", 1), ("d", 1)],
            [("b", "a", "rerun"), ("c", "b", "sweep"), ("d", "b", None)],
            False,
        )
        assert await walk("c", depth=1) == ([("c", 0), ("b", -1)], [("c", "b", "sweep")], True)
        assert await walk("c", depth=0) == ([("c", 0)], [], True)
        assert await walk("c", depth=2) == ([("c", 0), ("b", -1), ("a", -2)], [("c", "b", "sweep"), ("b", "a", "rerun")], False)
        assert await walk("a", direction="down", relation_filter=["rerun"]) == (
            [("a", 0), ("b", 1)],
            [("b", "a", "rerun")],
            False,
        )
        assert await here.call("lineage", {}) == ("INVALID_ARGUMENT", "card.lineage: options.card_id is missing")
        assert await walk("e") == ([("e", 0)], [], False)
        node = (await here.call("lineage", {"card_id": "b"}))["nodes"][0]
        assert node == {
            "card_id": "b",
            "pkg": "sc",
            "depth": 0,
            "prior_card_id": "a",
            "prior_relation": "rerun",
            "stats": {"pass_rate": 1},
        }
        assert "stats" not in (await here.call("lineage", {"card_id": "b", "include_stats": False}))["nodes"][0]
        assert await here.call("lineage", {"card_id": "missing"}) is None
        await here.call("append", "a", {"metadata": {"prior_card_id": "c"}})  # a circle, and a link that was made later
        assert (await walk("a", direction="both"))[0] == [("a", 0), ("c", -1), ("b", -2), ("d", 2)]
        assert [node for node, _ in (await walk("a", direction="down"))[0]] == ["a", "b", "c", "d"]
        wrong = await here.call("lineage", {"card_id": "a", "direction": "left"})
        assert wrong == ("INVALID_ARGUMENT", "card.lineage: options.direction must be up or down or both")

        rows = [
            {"case": "c0", "passed": True, "score": 1.5},
            {"case": "c1", "passed": False, "got": None},
            {"case": "c2", "passed": True},
        ]
        assert await here.call("read_samples", "a") == []
        assert await here.call("write_samples", "a", rows) == {"path": "cards/sc/a.samples", "count": 3}
        assert [row["case"] for row in await here.call("read_samples", "a")] == ["c0", "c1", "c2"]
        assert (await here.call("read_samples", "a"))[0] == rows[0]
        assert await here.call("read_samples", "a", {"offset": 1, "limit": 1, "where": {"passed": True}}) == [rows[2]]
        assert await here.call("read_samples", "a", {"offset": 2}) == [rows[2]]
        said = await here.call("write_samples", "a", rows)
        assert said == ("CARD_IMMUTABLE", "alc.card.write_samples: samples already exist for card 'a' (write-once)")
        assert (await here.call("write_samples", "b", []))["count"] == 0
        assert (await here.call("write_samples", "b", rows))[0] == "CARD_IMMUTABLE"
        for function in ("write_samples", "read_samples"):
            said = await here.call(function, "missing", *([[]] if function == "write_samples" else []))
            assert said == ("CARD_NOT_FOUND", f"alc.card.{function}: card 'missing' not found")
        assert (await here.call("sink_backfill", {"sink": "file:///x", "dry_run": True}))[0] == "CARD_SINKS_NONE"


@both
@scene
async def test_names_sizes_and_what_is_no_value(language: str) -> None:
    async with opened("memory:", settings=Settings(clock=Clock())) as hf:
        here = await cards(hf, language, max_cards=2, max_bytes=300_000)
        for bad in ("", "a/b", "a..b", "x" * 201):
            assert (await here.call("get", bad))[0] == "INVALID_ARGUMENT"
            assert (await here.call("create", {"pkg": {"name": bad}}))[0] == "INVALID_ARGUMENT"
        assert await here.call("create", {"pkg": {"name": "../x"}}) == ("INVALID_ARGUMENT", "Invalid pkg name: '../x'")
        assert (await here.create(text="x" * 300_001))[0] == "CARD_TOO_LARGE"
        nan = "0 / 0" if language == LUA else "NaN"
        here_too = (
            f"card_id = 'a', pkg = {{name = 'sc'}}, n = {nan}"
            if language == LUA
            else f"card_id: 'a', pkg: {{name: 'sc'}}, n: {nan}"
        )
        made = await hf.executions.run(
            here.session,
            f"return alc.call('card.create', {{{here_too}}})" if language == LUA else f"hf.call('card.create', {{{here_too}}})",
        )
        assert value(made)["card_id"] == "a"
        assert "n" not in await here.call("get", "a")
        many = [{"number": number, "text": "é" * 1000} for number in range(100)]
        assert (await here.call("write_samples", "a", many))["count"] == 100
        assert await here.call("read_samples", "a") == many  # in several rows
        assert await here.call("read_samples", "a", {"offset": 40, "limit": 30}) == many[40:70]
        assert await here.call("read_samples", "a", {"offset": 99}) == many[99:]
        assert await here.call("read_samples", "a", {"offset": 100}) == []
        await here.create(card_id="b")
        assert await here.create(card_id="c") == ("CARD_TOO_LARGE", "card: there are 2 cards already")
        assert (await here.call("write_samples", "b", many * 2))[0] == "CARD_TOO_LARGE"
        assert await here.call("read_samples", "b") == []


@scene
async def test_there_is_a_bound_on_what_is_asked_and_shown() -> None:
    async with opened("memory:", settings=Settings(clock=Clock())) as hf:
        here = await cards(hf, LUA, max_bytes=4 << 20)
        make = (
            "local t = ('x'):rep(3e6) return alc.call('card.create', {{card_id = '{}', pkg = {{name = 'p'}}, stats = {{t}}{}}})"
        )
        turn = await hf.executions.run(here.session, make.format("a", ", params = {t}"))
        assert (turn.execution.error or {})["code"] == "CARD_TOO_LARGE"
        for name in ("a", "b", "c"):
            value(await hf.executions.run(here.session, make.format(name, ", metadata = {prior_card_id = 'a'}")))
        said = await here.call("lineage", {"card_id": "a", "direction": "down"})
        assert (said[0], "at most 8 MB" in said[1]) == ("CARD_TOO_LARGE", True)
        light = await here.call("lineage", {"card_id": "a", "direction": "down", "include_stats": False})
        assert [node["card_id"] for node in light["nodes"]] == ["a", "b", "c"]
        await here.create(card_id="long", model={"id": "m" * 1000}, text="t" * 2000)
        await here.create(card_id="longer", text="t" * 3000)
        (shown,) = await here.call("find", {"where": {"model": {"id": "m" * 1000}}})
        assert shown["model"] == "m" * 200
        assert await here.ids("find", {"pkg": "sc", "order_by": ["text", "card_id"]}) == ["long", "longer"]
        assert await here.ids("find", {"pkg": "sc", "order_by": ["stats", "-card_id"]}) == ["longer", "long"]
        many = {"_or": [{"n": number} for number in range(1001)]}
        for function, options in (("find", {"where": many}), ("find", {"where": {"card_id": {"in": ["x"] * 1001}}})):
            assert await here.call(function, options) == ("INVALID_ARGUMENT", "where has more than 1000 values")
        assert (await here.call("read_samples", "a", {"where": many}))[0] == "INVALID_ARGUMENT"
        assert await here.call("find", {"where": {"_or": many["_or"][:1000]}}) == []
        assert (await here.call("find", {"order_by": ["x"] * 17}))[0] == "INVALID_ARGUMENT"
        assert (await here.call("alias_set", "best", "a", {"note": "x" * 4096}))[0] == "CARD_TOO_LARGE"
        assert (await here.call("alias_set", "best", "a", {"note": "x" * 3000}))["name"] == "best"


@scene
async def test_a_name_is_one_that_can_be_asked_for() -> None:
    async with opened("memory:") as hf:
        here = await cards(hf, JS)
        for card in ("pkg: {name: '\\ud800'}", "pkg: {name: 'p'}, card_id: 'a\\udc00'"):
            turn = await hf.executions.run(here.session, f"hf.call('card.create', {{{card}}})")
            assert (turn.execution.error or {})["code"] == "INVALID_ARGUMENT"
        assert await here.ids("list") == []


@scene
async def test_no_call_takes_longer_than_it_may() -> None:
    async with opened("memory:") as hf:
        here = await cards(hf, LUA, namespace="team")
        hasty = await cards(hf, LUA, namespace="team", timeout_ms=1)
        made = """
            for i = 1, 300 do
              alc.call('card.create', {card_id = 'c' .. i, pkg = {name = 'p'}, metadata = {prior_card_id = 'c' .. i - 1}})
            end
            local samples = {}
            for i = 1, 20000 do samples[i] = i end
            return alc.call('card.write_samples', 'c1', samples).count
        """
        assert value(await hf.executions.run(here.session, made)) == 20_000
        where = {"_or": [{"x": number} for number in range(100)]}
        for arguments in (
            ("read_samples", "c1", {"where": where}),
            ("find", {"where": where}),
            ("lineage", {"card_id": "c300", "depth": 1000}),
            ("lineage", {"card_id": "c1", "depth": 1000, "direction": "down"}),
            ("write_samples", "c2", [0] * 20_000),
        ):
            assert (await hasty.call(*arguments))[0] == "CARD_TIMEOUT", arguments[0]
        assert await here.call("read_samples", "c2") == []


def test_configs_that_make_no_sense() -> None:
    assert CardConfig() == CardConfig(None, 10_000, 1024 * 1024)
    for wrong in ({"namespace": "a/b"}, {"max_cards": 0}, {"max_bytes": 1 << 30}, {"other": 1}):
        with pytest.raises(InvalidValue, match=f"config.{next(iter(wrong))}"):
            Card.read_config(wrong)
    assert Card.exports() == ["create", "get", "list", "append", "get_by_alias", "alias_set", "alias_list", "find", "write_samples", "read_samples", "lineage", "sink_backfill"]  # fmt: skip


@scene
async def test_whose_cards_they_are(tmp_path: Path) -> None:
    """A template's own go with it; a name is shared; what `state` can name is elsewhere."""
    async with opened(f"sqlite:///{tmp_path / 'store.db'}") as hf:
        own, other = await cards(hf, LUA), await cards(hf, JS)
        team, team2 = await cards(hf, LUA, namespace="team"), await cards(hf, JS, namespace="team")
        for place in (own, team):
            await place.create(card_id="a")
        assert [await place.ids("list") for place in (own, other, team, team2)] == [["a"], [], ["a"], ["a"]]
        assert await team2.create(card_id="a") == ("CARD_EXISTS", "alc.card.create: card 'a' already exists (immutable)")
        assert value(await hf.executions.run(own.session, "return require('state').keys()")) == []
        template = (await hf.sessions.get(own.session)).template_id
        store, now = hf._runtime.store, 1 << 50
        assert store.count_state(hidden_root(template_root(template)), now) == 2
        assert store.count_state(hidden_root(shared_root("team")), now) == 2
        await hf.sessions.delete(own.session)
        await hf.templates.delete(template)
        assert store.count_state(template_root(template), now) == 0
        assert await team2.ids("list") == ["a"]


@scene
async def test_cards_do_not_count_as_keys_of_the_state() -> None:
    async with opened("memory:") as hf:
        granted = [Capability("module", "card"), Capability("module", "state", True, {"max_keys": 2})]
        await hf.templates.create("t", language="lua", capabilities=granted)
        here = await cards(hf, LUA, "t")
        await here.create(card_id="a")
        await here.create(card_id="b")
        assert (
            value(
                await hf.executions.run(here.session, "local s = require('state') s.set('x', 1) s.set('y', 1) return #s.keys()")
            )
            == 2
        )
        turn = await hf.executions.run(here.session, "require('state').set('z', 1)")
        assert (turn.execution.error or {})["code"] == "STATE_TOO_LARGE"


@scene
async def test_a_card_is_committed_with_its_step(tmp_path: Path) -> None:
    """Of a step that is rolled back nothing stays; sessions at once, also of another process, lose nothing and make nothing twice."""
    address = f"sqlite:///{tmp_path / 'store.db'}"
    async with opened(address) as hf:
        here = await cards(hf, LUA, limits=Limits(cpu_ms=300), namespace="team")
        turn = await hf.executions.run(
            here.session, "alc.call('card.create', {card_id = 'x', pkg = {name = 'p'}}) while true do end"
        )
        assert turn.execution.status == "timeout"
        assert await here.ids("list") == []
        template = str((await hf.sessions.get(here.session)).template_id)
        source = """
            local made = alc.call('card.create', {pkg = {name = 'p'}, stats = {n = 1}})
            local first = pcall(alc.call, 'card.create', {card_id = 'one', pkg = {name = 'p'}})
            return {made.card_id, first}
        """
        there = """
            async with opened(address) as hf:
                made = [(await hf.sessions.create(given[0])).id for _ in range(4)]
                return [value(turn) for turn in await asyncio.gather(*(hf.executions.run(one, given[1]) for one in made))]
        """
        made = [(await hf.sessions.create(UUID(template))).id for _ in range(8)]
        others = asyncio.get_running_loop().run_in_executor(None, elsewhere, address, there, [template, source])
        said = [value(turn) for turn in await asyncio.gather(*(hf.executions.run(one, source) for one in made))]
        said += await others
        assert len({name for name, _ in said}) == 12
        assert [first for _, first in said].count(True) == 1
        assert len(await here.ids("list")) == 13


@scene
async def test_a_filter_of_many_comparisons_ends_in_time() -> None:
    """All of them are of one card, or of one sample, so to look at the time between cards is too late."""
    async with opened("memory:") as hf:
        here = await cards(hf, JS, limits=Limits(wall_ms=60_000, cpu_ms=30_000), timeout_ms=200)
        text = "a" * 500_000
        await here.create(card_id="a", x=text + "end" + text[:99_000])
        await here.call("write_samples", "a", [{"x": text}])
        slow = {"_or": [{"x": {"contains": "a" * 96 + "b" + "aa"}}] * 990}
        for function, given in [("find", [{"where": slow}]), ("read_samples", ["a", {"where": slow}])]:
            began = time.monotonic()
            assert (await here.call(function, *given))[0] == "CARD_TIMEOUT"
            assert time.monotonic() - began < 5
        for part, found in [("end", ["a"]), ("aend" + "a" * 90_000, ["a"]), ("enda" * 2, []), ("", ["a"])]:
            assert await here.ids("find", {"where": {"x": {"contains": part}}}) == found
