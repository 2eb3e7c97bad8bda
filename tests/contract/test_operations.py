"""The operations that run nothing of a script: `Abandon`, which drops what waits, and `Globals`, which looks at variables."""

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import (
    Abandon,
    Evaluate,
    ExecutionPending,
    Failed,
    Finished,
    Globals,
    Host,
    Module,
    Modules,
    NotPending,
    Paused,
    QueryNotOpen,
    Resume,
    RunFile,
    UnknownQuery,
)

NOW = 1_700_000_000_000.0
KEY = b"a key of these tests, long enough"
WAITS = {"javascript": "await ask('first'); 'answered'", "lua": "alc.ask('first') return 'answered'"}
TWO_AND_TWO = {"javascript": "2 + 2", "lua": "2 + 2"}


@pytest.fixture
def template(engine, plain, language):
    return plain(engine, language)


@pytest.fixture
def sandbox(template):
    with template.create(seed=7, limits=Limits(wall_ms=60_000, cpu_ms=60_000)) as sandbox:
        yield sandbox


@pytest.fixture
def js(javascript):
    with javascript.create(seed=7) as sandbox:
        yield sandbox


@pytest.fixture
def moon(lua):
    with lua.create(seed=7) as sandbox:
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def run(sandbox, source):
    return value(sandbox.step(Evaluate(source), now=NOW))


def pause(sandbox, source):
    outcome = sandbox.step(Evaluate(source), now=NOW)
    assert isinstance(outcome, Paused), outcome
    return outcome


def abandon(sandbox):
    """The ids of the queries that were cancelled."""
    outcome = sandbox.step(Abandon(), now=NOW)
    assert isinstance(outcome, Finished), outcome
    assert outcome.result.json is None
    assert {event.type for event in outcome.events} <= {"cancelled"}
    return [event.payload["id"] for event in outcome.events]


def look(sandbox):
    return value(sandbox.step(Globals(), now=NOW))


def digests(sandbox):
    return {name: described["digest"] for name, described in look(sandbox).items()}


# ---- abandon, in both languages ------------------------------------------------------------------------------------------------


def test_on_every_way_of_running_guests(any_engine, plain, language):
    with plain(any_engine, language).create(seed=7) as sandbox:
        pause(sandbox, WAITS[language])
        assert look(sandbox) == {}
        assert abandon(sandbox) == [1]
        assert run(sandbox, TWO_AND_TWO[language]) == 4


def test_the_outcome_is_nothing(sandbox, language):
    pause(sandbox, WAITS[language])
    result = sandbox.step(Abandon()).result
    assert (result.type, result.preview) == (("undefined",) * 2 if language == "javascript" else ("nil",) * 2)


def test_refused_when_nothing_waits(sandbox, language):
    with pytest.raises(NotPending):
        sandbox.step(Abandon())
    pause(sandbox, WAITS[language])
    abandon(sandbox)
    with pytest.raises(NotPending):
        sandbox.step(Abandon())
    with pytest.raises(NotPending):
        sandbox.step(Resume({1: "late"}))


def test_what_it_changed_stays(sandbox, language):
    pause(
        sandbox,
        {
            "javascript": "globalThis.kept = {n: 1}; let own = 2; await ask('q'); kept.n = 3",
            "lua": "kept = {n = 1} own = 2 alc.ask('q') kept.n = 3",
        }[language],
    )
    abandon(sandbox)
    assert run(sandbox, "kept.n + own") == 3


def test_ids_go_on_and_old_ones_are_closed(sandbox, language):
    pause(sandbox, WAITS[language])
    abandon(sandbox)
    assert pause(sandbox, WAITS[language]).open == (2,)
    with pytest.raises(QueryNotOpen):
        sandbox.step(Resume({1: "late"}))
    with pytest.raises(UnknownQuery):
        sandbox.step(Resume({3: "early"}))
    with pytest.raises(ExecutionPending):
        sandbox.step(Evaluate("1"))
    assert value(sandbox.step(Resume({2: "now"}))) == "answered"


def test_several_open_queries(sandbox, language):
    pause(
        sandbox,
        {
            "javascript": "await Promise.all(['a', 'b', 'c'].map(p => llm(p)))",
            "lua": "return alc.llm_batch({'a', 'b', 'c'})",
        }[language],
    )
    assert isinstance(sandbox.step(Resume({2: "B"})), Paused)
    assert abandon(sandbox) == [1, 3]
    together = {
        "javascript": "(await Promise.all([llm('x'), llm('y')])).join('')",
        "lua": "return table.concat(alc.llm_batch({'x', 'y'}))",
    }[language]
    assert pause(sandbox, together).open == (4, 5)
    assert value(sandbox.step(Resume({4: "x", 5: "y"}))) == "xy"


def test_only_the_clock(sandbox, language):
    outcome = pause(sandbox, {"javascript": "await hf.sleep(1000); hit = 1", "lua": "alc.sleep(1000) hit = 1"}[language])
    assert outcome.wake_at == NOW + 1000
    assert abandon(sandbox) == []
    assert sandbox.step(Evaluate("1"), now=NOW + 5000).result.value == 1
    assert "hit" not in look(sandbox)


def test_nothing_cleans_up(sandbox, language):
    pause(
        sandbox,
        {
            "javascript": """
                globalThis.log = [];
                async function inner() { try { await ask('q') } catch { log.push('catch') } finally { log.push('finally') } }
                async function outer() { try { await inner() } finally { log.push('outer') } }
                await outer().then(() => log.push('then'), () => log.push('rejected')).finally(() => log.push('last'))
            """,
            "lua": """
                log = {}
                local function note(what) return setmetatable({}, {__close = function() log[#log + 1] = what end}) end
                local outer <close> = note('outer')
                pcall(function()
                    local inner <close> = note('inner')
                    pcall(alc.ask, 'q')
                    log[#log + 1] = 'went on'
                end)
                log[#log + 1] = 'last'
            """,
        }[language],
    )
    abandon(sandbox)
    assert run(sandbox, {"javascript": "log.length", "lua": "#log"}[language]) == 0
    for _ in range(3):
        pause(sandbox, WAITS[language])
        abandon(sandbox)
    assert run(sandbox, {"javascript": "log.length", "lua": "collectgarbage() return #log"}[language]) == 0


@pytest.mark.parametrize("before", [True, False])
def test_with_images(template, language, before):
    with template.create(seed=7) as first:
        pause(first, {"javascript": "var n = 1; " + WAITS["javascript"], "lua": "n = 1 " + WAITS["lua"]}[language])
        if not before:
            abandon(first)
        image = template.open(first.freeze().seal(KEY, template), KEY)
    with template.thaw(image) as second:
        if before:
            assert abandon(second) == [1]
        assert run(second, "n") == 1
        assert pause(second, WAITS[language]).open == (2,)
        assert value(second.step(Resume({2: "yes"}))) == "answered"


def test_limits_that_are_used_up_do_not_matter(template, language):
    with template.create(limits=Limits(max_events=2, max_output_kb=1)) as sandbox:
        pause(
            sandbox,
            {"javascript": "await Promise.all([llm('a'), llm('b')])", "lua": "alc.llm_batch({'a', 'b'})"}[language],
        )
        assert abandon(sandbox) == [1, 2]
        assert run(sandbox, TWO_AND_TWO[language]) == 4


def test_hundreds_of_times(sandbox, language):
    source = {
        "javascript": """
            const much = 'x'.repeat(1e5) + Math.random(), p = ask('q'), held = {p};
            async function* stream() { for (;;) yield await p }
            const both = Promise.all([p, hf.sleep(1e9)]);
            both.finally(() => much);
            for await (const x of stream()) held.x = [x, much];
        """,
        "lua": """
            local much, co = ('x'):rep(1e5) .. math.random()
            co = coroutine.wrap(function() local c <close> = setmetatable({co}, {__close = print}) return alc.ask(much:sub(1, 9)) end)
            co()
        """,
    }[language]
    sizes = []
    for i in range(400):
        pause(sandbox, source)
        abandon(sandbox)
        if i % 100 == 99:
            sizes.append(len(sandbox.content()))
    assert sizes[-1] <= sizes[0] + (1 << 20), sizes


# ---- abandon, in JavaScript ----------------------------------------------------------------------------------------------------


def test_a_promise_of_an_earlier_execution_does_not_wake_it(js):
    run(js, "var log = []; var gate = new Promise(done => globalThis.open = done); gate.then(() => log.push('earlier')); 0")
    pause(js, "setTimeout(() => {}, 1e6); gate.then(() => log.push('dropped')); await gate; log.push('went on')")
    abandon(js)
    assert run(js, "open(); await gate; await null; log.join()") == "earlier"


def test_a_promise_that_it_made_never_settles(js):
    pause(js, "var mine = ask('q'); var all = Promise.all([mine]); await all")
    abandon(js)
    outcome = js.step(Evaluate("await all"), now=NOW)
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "NOTHING_TO_WAIT_FOR"


def test_what_waits_since_an_earlier_execution_goes_on(js):
    run(
        js,
        "var ticks = 0; (async () => { for (;;) { await hf.sleep(10); ticks++ } })(); setInterval(() => ticks += 100, 10); 0",
    )
    js.step(Evaluate("await ask('q')"), now=NOW + 15)
    assert look(js)["ticks"]["preview"] == "101"
    abandon(js)
    assert js.step(Evaluate("ticks"), now=NOW + 40).result.value == 202


def test_its_timers_are_gone(js):
    pause(js, "var hits = 0; setTimeout(() => hits++, 1); setInterval(() => hits++, 1); await new Promise(() => {})")
    abandon(js)
    assert js.step(Evaluate("hits"), now=NOW + 1000).result.value == 0


def test_a_file_that_waits_for_timers(js):
    outcome = js.step(RunFile("var hits = 0; setTimeout(() => hits++, 50); 'done'", "main.js"), now=NOW)
    assert isinstance(outcome, Paused)
    abandon(js)
    assert js.step(Evaluate("hits"), now=NOW + 1000).result.value == 0


def test_async_generators(js):
    pause(
        js,
        """
        var log = [];
        async function* numbers() { try { yield 1; yield await ask('q') } finally { log.push('finally') } }
        var generator = numbers();
        for await (const n of generator) log.push(n);
        """,
    )
    abandon(js)
    assert run(js, "log.join()") == "1"
    assert isinstance(js.step(Evaluate("await generator.next()"), now=NOW), Failed)
    assert run(js, "log.join()") == "1"


MODULES = Modules(
    {
        "slow.js": Module("module", "globalThis.log.push('slow'); export const got = await ask('q'); globalThis.log.push(got)"),
        "between.js": Module(
            "module", "import { got } from 'slow.js'; globalThis.log.push('between'); export default got + '!'"
        ),
    }
)


def test_modules_begin_again(javascript):
    with javascript.create(host=Host(modules=MODULES)) as sandbox:
        run(sandbox, "var log = []; 0")
        main = RunFile("import said from 'between.js'; log.push('main'); export default said", "main.js")
        for n in range(1, 4):
            outcome = sandbox.step(main)
            assert isinstance(outcome, Paused)
            assert outcome.open == (n,)
            abandon(sandbox)
        sandbox.step(main)
        assert value(sandbox.step(Resume({4: "yes"}))) == "yes!"
        assert run(sandbox, "log.join()") == "slow,slow,slow,slow,yes,between,main"


def test_a_module_of_an_earlier_execution_does_not_run_what_imports_it(javascript):
    modules = Modules(
        {
            "late.js": Module("module", "await hf.sleep(10); globalThis.log.push('late')"),
            "user.js": Module("module", "import 'late.js'; globalThis.log.push('user')"),
        }
    )
    with javascript.create(host=Host(modules=modules)) as sandbox:
        sandbox.step(Evaluate("var log = []; import('late.js'); 0"), now=NOW)
        assert isinstance(sandbox.step(Evaluate("await import('user.js')"), now=NOW), Paused)
        abandon(sandbox)
        assert sandbox.step(Evaluate("await null; log.join()"), now=NOW + 20).result.value == "late"
        assert sandbox.step(Evaluate("await import('user.js'); log.join()"), now=NOW + 20).result.value == "late,user"


def test_finalization_waits_for_the_next_execution(js):
    run(js, "var seen = 0; var registry = new FinalizationRegistry(() => seen++); 0")
    pause(js, "await (async () => { const held = {}; registry.register(held, 1); await ask('q'); return held })()")
    abandon(js)
    assert look(js)["seen"]["preview"] == "0"
    assert run(js, "seen") == 1


# ---- abandon, in Lua -----------------------------------------------------------------------------------------------------------


def test_nested_coroutines_are_dead(moon):
    pause(
        moon,
        """
        log = {}
        outer = coroutine.create(function()
            inner = coroutine.wrap(function() me = coroutine.running() alc.ask('q') log[1] = 'inner' end)
            inner()
            log[2] = 'outer'
        end)
        root = coroutine.running()
        coroutine.resume(outer)
        log[3] = 'root'
        """,
    )
    abandon(moon)
    assert run(moon, "return coroutine.status(outer) .. ' ' .. coroutine.status(me)") == "dead dead"
    assert run(moon, "return coroutine.resume(outer)") is False
    assert run(moon, "return pcall(inner)") is False
    assert run(moon, "return coroutine.running() == root and next(log) == nil") is True
    run(moon, "collectgarbage() collectgarbage()")
    assert run(moon, "local t = {} for i = 1, 50 do t[i] = coroutine.wrap(function() return i end)() end return #t") == 50


def test_a_coroutine_that_only_yielded_is_not_touched(moon):
    pause(moon, "co = coroutine.wrap(function() coroutine.yield(1) return 2 end) co() alc.ask('q')")
    abandon(moon)
    assert run(moon, "co()") == 2


def test_captured_variables_keep_their_values(moon):
    pause(moon, "local n = 41 function get() n = n + 1 return n end alc.ask('q')")
    abandon(moon)
    assert run(moon, "get()") == 42


def test_required_modules_begin_again(lua):
    modules = Modules({"slow": Module("script", "times = (times or 0) + 1 return alc.ask('q')")})
    with lua.create(host=Host(modules=modules)) as sandbox:
        for _ in range(2):
            pause(sandbox, "return require('slow')")
            abandon(sandbox)
        pause(sandbox, "return require('slow')")
        assert value(sandbox.step(Resume({3: "yes"}))) == "yes"
        assert run(sandbox, "times") == 3


def test_in_sort_and_gsub(moon):
    for source in (
        "table.sort({3, 1, 2}, function(a, b) return alc.ask('q') end)",
        "return ('abc'):gsub('.', function() return alc.ask('q') end)",
        "for k in coroutine.wrap(function() alc.ask('q') end) do end",
        "setmetatable({}, {__index = function() return alc.ask('q') end}).x()",
    ):
        pause(moon, source)
        assert len(abandon(moon)) == 1
    assert run(moon, "local t = {3, 1, 2} table.sort(t) return table.concat(t)") == "123"


def test_finalizers_do_not_run(moon):
    pause(moon, "done = 0 for i = 1, 100 do setmetatable({}, {__gc = function() done = done + 1 end}) end alc.ask('q')")
    before = look(moon)["done"]
    abandon(moon)
    assert look(moon)["done"] == before


# ---- globals, in both languages ------------------------------------------------------------------------------------------------


def test_a_fresh_sandbox_has_none(sandbox):
    outcome = sandbox.step(Globals())
    assert value(outcome) == {}
    assert outcome.events == ()
    assert outcome.result.has_json


def test_types_and_previews(sandbox, language):
    run(
        sandbox,
        {"javascript": "var n = 1.5, s = 'text', t = [1, {a: 'b'}]; 0", "lua": "n = 1.5 s = 'text' t = {1, {a = 'b'}}"}[
            language
        ],
    )
    found = look(sandbox)
    assert {name: (described["type"], described["preview"]) for name, described in found.items()} == {
        "n": ("number", "1.5"),
        "s": ("string", "text"),
        "t": {"javascript": ("Array", "[ 1, { a: 'b' } ]"), "lua": ("table", '{1, {a = "b"}}')}[language],
    }
    assert all(len(described["digest"]) == 16 and int(described["digest"], 16) >= 0 for described in found.values())


DEEP = {
    "javascript": "var deep = {list: [1, {map: new Map([['k', {set: new Set([[0]])}]])}]}, other = {same: true}; 0",
    "lua": "deep = {list = {1, {map = {k = {set = {{0}}}}}}} other = {same = true}",
}
CHANGE = {
    "javascript": "[...deep.list[1].map.get('k').set][0][0] = {}",
    "lua": "deep.list[2].map.k.set[1][1] = {}",
}
UNDO = {
    "javascript": "[...deep.list[1].map.get('k').set][0][0] = 0",
    "lua": "deep.list[2].map.k.set[1][1] = 0",
}


def test_a_change_deep_inside_is_seen(sandbox, language):
    run(sandbox, DEEP[language])
    first = digests(sandbox)
    assert digests(sandbox) == first
    run(sandbox, CHANGE[language] + {"javascript": "; 0", "lua": ""}[language])
    second = digests(sandbox)
    assert second["deep"] != first["deep"]
    assert second["other"] == first["other"]
    run(sandbox, UNDO[language])
    assert digests(sandbox) == first


def test_forks_with_the_same_content_have_the_same_digests(template, language):
    with template.create(seed=1) as sandbox:
        run(sandbox, DEEP[language])
        image, first = sandbox.freeze(), digests(sandbox)
    made = {
        "javascript": [
            "for (let i = 0; i < 500; i++) globalThis['x' + i] = [i]; 0",
            "for (let i = 0; i < 500; i++) delete globalThis['x' + i]",
        ],
        "lua": ["for i = 1, 500 do _G['x' .. i] = {i} end", "for i = 1, 500 do _G['x' .. i] = nil end collectgarbage()"],
    }[language]
    build = {
        "javascript": "var later = {a: [1, 2, {b: 'c'}], f(x) { return x }, big: 10n ** 30n}; later.me = later; 0",
        "lua": "later = {a = {1, 2, {b = 'c'}}, f = function(x) return x end, [{1}] = {2}, [{2}] = {3}} later.me = later",
    }[language]
    with template.thaw(image) as one, template.fork(image) as other:
        assert digests(one) == digests(other) == first
        for source in made:
            run(other, source)
        run(one, build)
        run(other, build)
        assert digests(one) == digests(other)
        assert set(look(one)) == {"deep", "other", "later"}
        with template.thaw(other.freeze()) as thawed:
            assert look(thawed) == look(other)


def test_while_paused_and_then_resumed(template, language):
    source = {
        "javascript": "var seen = []; for (let i = 0; i < 3; i++) seen.push([i, await ask(i + '?'), Math.random()]); JSON.stringify(seen)",
        "lua": "seen = {} for i = 1, 3 do seen[i] = i .. alc.ask(i .. '?') .. math.random() end return table.concat(seen, ' ')",
    }[language]
    results, states = [], []
    for watched in (False, True):
        with template.create(seed=5) as sandbox:
            pause(sandbox, source)
            for query in (1, 2, 3):
                if watched:
                    states.append(digests(sandbox)["seen"])
                outcome = sandbox.step(Resume({query: "yes"}), now=NOW)
            results.append(value(outcome))
    assert results[0] == results[1]
    assert len(set(states)) == 3


def test_it_is_not_output_of_the_script(template, language):
    with template.create(limits=Limits(max_output_kb=4, max_events=3)) as sandbox:
        pause(
            sandbox,
            {
                "javascript": "var big = 'x'.repeat(5000); await ask('q'); 'end'",
                "lua": "big = ('x'):rep(5000) alc.ask('q') return 'end'",
            }[language],
        )
        for _ in range(20):
            assert len(look(sandbox)["big"]["preview"]) <= 2001
        assert value(sandbox.step(Resume({1: 0}))) == "end"


def test_cycles(sandbox, language):
    make = {
        "javascript": "var ring = {n: 1}; ring.next = {back: ring, self: null}; ring.next.self = ring.next; 0",
        "lua": "ring = {n = 1} ring.next = {back = ring} ring.next.self = ring.next",
    }[language]
    run(sandbox, make)
    first = digests(sandbox)
    run(sandbox, make)
    assert digests(sandbox) == first
    run(sandbox, {"javascript": "ring.next.self = ring; 0", "lua": "ring.next.self = ring"}[language])
    assert digests(sandbox) != first


def test_a_chain_of_a_hundred_thousand(sandbox, language):
    run(
        sandbox,
        {
            "javascript": "var end = {v: 1}, chain = end; for (let i = 0; i < 1e5; i++) chain = {next: chain}; 0",
            "lua": "last = {v = 1} chain = last for i = 1, 1e5 do chain = {next = chain} end",
        }[language],
    )
    first = digests(sandbox)
    run(sandbox, {"javascript": "end.v++", "lua": "last.v = 2"}[language])
    assert digests(sandbox)["chain"] != first["chain"]


def test_large_arrays(sandbox, language):
    run(
        sandbox,
        {
            "javascript": "var list = Array.from({length: 1e6}, (_, i) => i), bytes = new Uint8Array(8e6), text = 'ab'.repeat(2e6); 0",
            "lua": "list = {} for i = 1, 1e6 do list[i] = i end text = ('ab'):rep(2e6)",
        }[language],
    )
    first = look(sandbox)
    assert len(first["list"]["preview"]) <= 2001
    run(
        sandbox,
        {
            "javascript": "list[999999] = 0; bytes[7999999] = 1; text = text.slice(0, -1) + 'c'; 0",
            "lua": "list[1000000] = 0 text = text:sub(1, -2) .. 'c'",
        }[language],
    )
    second = look(sandbox)
    assert all(first[name]["digest"] != second[name]["digest"] for name in first)


def test_more_than_can_be_walked_ends(sandbox, language):
    run(
        sandbox,
        {
            "javascript": "var list = Array.from({length: 5e5}, (_, i) => [i]), again = [list, {}], third = [again]; 0",
            "lua": "list = {} for i = 1, 5e5 do list[i] = {i} end again = {list, {}} third = {again}",
        }[language],
    )
    assert len(look(sandbox)) == 3
    assert look(sandbox) == look(sandbox)


def test_many_names(sandbox, language):
    run(
        sandbox,
        {
            "javascript": "for (let i = 0; i < 12000; i++) globalThis['name' + i] = {text: 'x'.repeat(3000)}; 0",
            "lua": "local text = ('x'):rep(3000) for i = 1, 12000 do _G['name' .. i] = {text = text} end",
        }[language],
    )
    assert len(look(sandbox)) == 10_000


def test_names_of_all_kinds(sandbox, language):
    names = ["$", "ünïcode", "with space", 'quote"', "7"]
    for name in names:
        sandbox.evaluate(f"{'globalThis' if language == 'javascript' else '_G'}[{name!r}] = 1")
    assert set(look(sandbox)) == set(names)


def test_replaced_builtins_are_listed(sandbox, language):
    run(sandbox, {"javascript": "var parseInt = 1; Math.sqrt(2); 0", "lua": "print = 1 string.x = 2"}[language])
    assert set(look(sandbox)) == {{"javascript": "parseInt", "lua": "print"}[language]}


def test_all_globals_as_a_value(sandbox, language):
    run(sandbox, {"javascript": "var all = globalThis; 0", "lua": "all = _G"}[language])
    first = digests(sandbox)["all"]
    run(sandbox, {"javascript": "var x = 1; 0", "lua": "x = 1"}[language])
    assert digests(sandbox)["all"] == first  # each variable has a digest of its own


def test_functions(sandbox, language):
    run(sandbox, {"javascript": "function f() { return 1 }; 0", "lua": "function f() return 1 end"}[language])
    first = digests(sandbox)
    run(sandbox, {"javascript": "f(); new f(); 0", "lua": "f()"}[language])
    assert digests(sandbox) == first
    run(sandbox, {"javascript": "function f() { return 2 }; 0", "lua": "function f() return 2 end"}[language])
    assert digests(sandbox) != first


# ---- globals, in JavaScript ----------------------------------------------------------------------------------------------------


def test_lexical_bindings(js):
    pause(js, "let a = 1; const b = [2]; class C { static n = 3 }; var d = 4; let later = await ask('q'); later")
    found = look(js)
    assert [found[name]["type"] for name in ("a", "b", "C", "d", "later")] == [
        "number",
        "Array",
        "function",
        "number",
        "uninitialized",
    ]
    first = digests(js)
    assert value(js.step(Resume({1: "x"}), now=NOW)) == "x"
    assert look(js)["later"]["preview"] == "x"
    run(js, "C.n++; b.push(1); a = 2; 0")
    second = digests(js)
    assert all(first[name] != second[name] for name in ("a", "b", "C", "later"))
    assert first["d"] == second["d"]
    run(js, "globalThis.a = 'hidden'; 0")
    assert look(js)["a"]["preview"] == "2"


def test_no_code_of_the_script_runs(js):
    run(
        js,
        """
        var ran = [];
        const note = (what, value) => (...args) => { ran.push(what); return value };
        Object.defineProperty(globalThis, 'got', { get: note('getter'), configurable: true, enumerable: true });
        const trap = new Proxy({}, { get: () => note('trap'), ownKeys: note('keys', []), getPrototypeOf: note('proto', null) });
        const proxies = [new Proxy({}, trap), new Proxy([], trap), new Proxy(function () {}, trap)];
        const objects = {
            get own() { ran.push('own') }, toJSON: note('json'), toString: note('string'), valueOf: note('value'), then: note('then'),
            [Symbol.toPrimitive]: note('primitive'), [Symbol.for('nodejs.util.inspect.custom')]: note('inspect'),
            get [Symbol.toStringTag]() { ran.push('tag'); return 'x' }, get constructor() { ran.push('constructor') },
        };
        class Thing { get [Symbol.toStringTag]() { ran.push('class tag'); return 'x' } get size() { ran.push('size') } }
        const things = [new Thing(), Object.create(objects), Object.create(proxies[0]), new Error('bad', { cause: objects })];
        Object.defineProperty(things[3], 'stack', { get: note('stack') });
        Object.defineProperty(Array.prototype, 'map', { value: note('map') });
        Object.defineProperty(Date.prototype, 'toISOString', { value: note('iso') });
        Error.prepareStackTrace = note('stack trace');
        const date = new Date(0), never = new Date(NaN), list = Object.assign([1, , 3], { then: note('then') });
        Object.defineProperty(list, 1, { get: note('element') });
        0
        """,
    )
    found = look(js)
    assert found["ran"]["preview"] == "[]"
    assert (found["got"]["type"], found["got"]["preview"]) == ("accessor", "[Getter]")
    assert found["date"]["preview"] == "1970-01-01T00:00:00.000Z"
    assert found["never"]["preview"] == "Invalid Date"
    assert look(js) == found
    assert run(js, "ran.length") == 0


def test_what_objects_hold_is_part_of_the_digest(js):
    for make, change in (
        ("new Date(0)", "it.setTime(1)"),
        ("/a/g", "it.exec('a')"),
        ("new Float64Array(3)", "it[2] = 0.5"),
        ("new DataView(new ArrayBuffer(9))", "it.setUint8(8, 1)"),
        ("new Map([[{}, 1]])", "it.set(it.keys().next().value, 2)"),
        ("new Set([1])", "it.add(2)"),
        ("[1, 2]", "it.length = 1"),
        ("[1, 2]", "it.extra = 1"),
        ("[1.5]", "it[0] = 1.25"),
        ("Object(1n)", "it.x = 1"),
        ("({a: 1})", "Object.freeze(it)"),
        ("({a: 1n})", "it.a = -1n"),
        ("({a: Symbol('x')})", "it.a = Symbol('y')"),
        ("({[Symbol('x')]: 1})", "it[Object.getOwnPropertySymbols(it)[0]] = 2"),
        ("new (class { #p = 1; set(x) { this.#p = x } })", "it.set(2)"),
        ("new Proxy({a: 1}, {})", "it.a = 2"),
        ("({a: null})", "it.a = undefined"),
        ("({a: ''})", "it.a = 'é'"),
        ("({a: 0})", "it.a = -0"),
        ("({get a() { return 1 }})", "Object.defineProperty(it, 'a', {get() { return 2 }})"),
        ("function () {}", "it.n = 1"),
        ("function () {}", "it.prototype.n = 1"),
        ("Promise.withResolvers()", "it.resolve(1)"),
        ("{ const a = {}; ({a, b: a}) }", "it.b = {}"),
    ):
        source = make if make.startswith("{") else f"({make})"
        run(js, f"globalThis.it = eval({source!r}); 0")
        first = digests(js)["it"]
        assert digests(js)["it"] == first, make
        run(js, change + "; 0")
        assert digests(js)["it"] != first, (make, change)


def test_previews_without_running_anything(js):
    for source, preview in (
        ("({'a-b': 1, c: 'd\\'e', [Symbol('s')]: null})", "{ 'a-b': 1, c: 'd\\'e', [Symbol(s)]: null }"),
        ("new Map([['k', new Set([1])]])", "Map(1) { 'k' => Set(1) { 1 } }"),
        ("new Uint16Array([1, 500])", "Uint16Array(2) [ 1, 500 ]"),
        ("new ArrayBuffer(8)", "ArrayBuffer { byteLength: 8 }"),
        ("new RangeError('bad')", "[RangeError: bad]"),
        ("/a+/giu", "/a+/giu"),
        ("class Point {}", "[class Point]"),
        ("new (class Point { x = 1 })", "Point { x: 1 }"),
        ("Promise.resolve([1])", "Promise { [ 1 ] }"),
        ("new Proxy({}, {})", "[Proxy]"),
        ("Object.create(null)", "[Object: null prototype] {}"),
        ("'\\u{1F600}é'", "\U0001f600é"),
        ("'\\ud800'", "\ud800"),
        ("-0", "-0"),
        ("12345678901234567890n", "12345678901234567890n"),
        ("({a: {b: {c: {d: 1}}}})", "{ a: { b: { c: [Object] } } }"),
    ):
        run(js, f"globalThis.it = ({source}); 0")
        assert look(js)["it"]["preview"] == preview, source


def test_the_same_text_however_it_is_kept(js):
    run(
        js,
        "var a = 'abcé' + 'x'.repeat(9000), b = Array.from(a).join(''), c = ('\\u2028' + a).slice(1), d = a.slice(0, 5000) + a.slice(5000); 0",
    )
    assert len(set(digests(js).values())) == 1


def test_performance_now_does_not_begin_with_it(javascript):
    with javascript.create() as sandbox:
        sandbox.step(Globals(), now=NOW)
        assert sandbox.step(Evaluate("performance.now()"), now=NOW + 50).result.value == 0


# ---- globals, in Lua -----------------------------------------------------------------------------------------------------------


def test_no_metamethods_run(moon):
    run(
        moon,
        """
        ran = {}
        local function note(what) return function() ran[#ran + 1] = what end end
        local meta = {}
        for _, name in ipairs({'index', 'newindex', 'len', 'pairs', 'tostring', 'eq', 'call', 'lt', 'gc', 'close', 'name'}) do
            meta['__' .. name] = note(name)
        end
        thing = setmetatable({1, key = 2}, meta)
        setmetatable(_G, {__index = note('global'), __pairs = note('globals')})
        """,
    )
    found = look(moon)
    assert found["thing"]["preview"] == "{1, key = 2}"
    assert run(moon, "return #rawget(_G, 'ran')") == 0


def test_where_entries_lie_does_not_matter(moon):
    run(
        moon,
        "a = {} for i = 1, 100 do a[i] = i a['k' .. i] = {i} end b = {} for i = 100, 1, -1 do b['k' .. i] = {i} b[i] = i end",
    )
    run(moon, "c = {[1] = 1} d = {1} e = {[{1}] = {2}, [{3}] = {4}, [print] = {}} f = {[print] = {}, [{3}] = {4}, [{1}] = {2}}")
    found = digests(moon)
    assert found["a"] == found["b"]
    assert found["c"] == found["d"]
    assert found["e"] == found["f"]
    assert len(set(found.values())) == 3


def test_numbers_of_both_kinds_differ(moon):
    run(moon, "a = 1 b = 1.0 c = '1' d = true e = false f = alc.null g = {} h = print i = tostring")
    assert len(set(digests(moon).values())) == 9
