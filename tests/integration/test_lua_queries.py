"""A query may wait wherever Lua code runs, at any depth, and the execution goes on there in another process."""

import pytest

from holdfast.sandbox import Failed, Failure, Finished, Paused
from tests.integration.lua_runs import NOW, answered, failure, run, value

PLACES = {
    "pcall": "return select(2, pcall(alc.llm, 'x'))",
    "pcall in pcall": "return select(3, pcall(pcall, function() local v = alc.llm('x') return v end))",
    "xpcall": "return select(2, xpcall(function() return alc.llm('x') end, debug.traceback))",
    "xpcall with arguments": "return select(2, xpcall(alc.llm, print, 'x'))",
    "close": "local r do local c <close> = setmetatable({}, {__close = function() r = alc.llm('x') end}) end return r",
    "close after an error": "local r; pcall(function() local c <close> = setmetatable({}, {__close = function(_, e) r = alc.llm(e) end}) error('x', 0) end) return r",
    "close that raises the answer": "return select(2, pcall(function() local c <close> = setmetatable({}, {__close = function() error(alc.llm('x'), 0) end}) error('first') end))",
    "close on return": "local r; (function() local c <close> = setmetatable({}, {__close = function() r = alc.llm('x') end}) return 1 end)() return r",
    "close on break": "local r; while true do local c <close> = setmetatable({}, {__close = function() r = alc.llm('x') end}) break end return r",
    "close of a for loop": "local r; for i in function(_, i) if not i then return 1 end end, nil, nil, setmetatable({}, {__close = function() r = alc.llm('x') end}) do end return r",
    "__index": "return setmetatable({}, {__index = function() return alc.llm('x') end}).y",
    "__index of __index": "return setmetatable({}, {__index = setmetatable({}, {__index = function() return alc.llm('x') end})}).y",
    "__newindex": "local r; setmetatable({}, {__newindex = function() r = alc.llm('x') end}).y = 1 return r",
    "__call": "return setmetatable({}, {__call = function() return alc.llm('x') end})()",
    "__concat": "return 'a' .. setmetatable({}, {__concat = function() return alc.llm('x') end})",
    "__concat of many": "local c = setmetatable({}, {__concat = function(a, b) return type(b) == 'table' and alc.llm('x') or b end}) return ('p' .. 'q' .. c):sub(2)",
    "__len": "return #setmetatable({}, {__len = function() return alc.llm('x') end})",
    "__unm": "return -setmetatable({}, {__unm = function() return alc.llm('x') end})",
    "__bnot": "return ~setmetatable({}, {__bnot = function() return alc.llm('x') end})",
    "__eq": "local m = {__eq = function() return alc.llm('x') == 'a1' end} return setmetatable({}, m) == setmetatable({}, m) and 'a1'",
    "not __eq": "local m = {__eq = function() return alc.llm('x') ~= 'a1' end} return setmetatable({}, m) ~= setmetatable({}, m) and 'a1'",
    "__lt": "local m = {__lt = function() return alc.llm('x') == 'a1' end} return setmetatable({}, m) < setmetatable({}, m) and 'a1'",
    "__le": "local m = {__le = function() return alc.llm('x') == 'a1' end} return setmetatable({}, m) <= setmetatable({}, m) and 'a1'",
    "__gt in a condition": "local m = {__lt = function() return alc.llm('x') == 'a1' end} if setmetatable({}, m) > 1 then return 'a1' end",
    "__pairs": "for k in pairs(setmetatable({}, {__pairs = function() local v = alc.llm('x') return next, {[v] = 1} end})) do return k end",
    "iterator": "for v in function() return alc.llm('x') end do return v end",
    "callable iterator": "for v in setmetatable({}, {__call = function() return alc.llm('x') end}) do return v end",
    "coroutine": "return select(2, coroutine.resume(coroutine.create(function() return alc.llm('x') end)))",
    "coroutine of the query itself": "return select(2, coroutine.resume(coroutine.create(alc.llm), 'x'))",
    "wrap": "return coroutine.wrap(function() return alc.llm('x') end)()",
    "wrap in wrap": "return coroutine.wrap(coroutine.wrap(coroutine.wrap(alc.llm)))('x')",
    "wrap in pcall": "return select(2, pcall(coroutine.wrap(alc.llm), 'x'))",
    "wrap as iterator": "for v in coroutine.wrap(function() coroutine.yield(alc.llm('x')) end) do return v end",
    "ten coroutines deep": "local function deep(n) if n == 0 then return alc.llm('x') end return coroutine.wrap(function() return deep(n - 1) end)() end return deep(10)",
    "resume and wrap in turn": "local function deep(n) if n == 0 then return alc.llm('x') end local co = coroutine.create(deep) return select(2, coroutine.resume(co, n - 1)) end return coroutine.wrap(deep)(4)",
    "between yields": "local co = coroutine.wrap(function() coroutine.yield(1) local v = alc.llm('x') coroutine.yield(2) return v end) co() co() return co()",
    "sort": "local t, r = {3, 1, 2} table.sort(t, function(a, b) r = r or alc.llm('x') return a < b end) return table.concat(t) == '123' and r",
    "gsub": "return (('_'):gsub('_', function() return alc.llm('x') end))",
    "gsub with captures": "return (('k=v'):gsub('(%w)=(%w)', function(k, v) return k == 'k' and v == 'v' and alc.llm('x') end))",
    "gsub in sort in a coroutine": "local r; coroutine.wrap(function() table.sort({2, 1}, function(a, b) r = r or ('_'):gsub('_', function() return alc.llm('x') end) return a < b end) end)() return r",
    "loaded code": "return load('return alc.llm(...)')('x')",
    "tail call": "local function f() return alc.llm('x') end return f()",
    "varargs": "local function f(...) return select('#', ...), ... end local n, a = f(alc.llm('x')) return a",
    "table constructor": "local t = {1, alc.llm('x'), k = 2} return t[2]",
    "and, or": "return false or (true and alc.llm('x'))",
    "select": "return (select(-1, 1, 2, alc.llm('x')))",
    "alc.map": "return alc.map({1}, function() return alc.llm('x') end)[1]",
    "alc.filter": "local r; alc.filter({1}, function() r = alc.llm('x') end) return r",
    "alc.reduce": "return alc.reduce({1, 2}, function() return alc.llm('x') end)",
    "alc.pipe": "return alc.pipe({function() return {result = alc.llm('x')} end}, {}).result",
    "alc.map in alc.map in a coroutine": "return coroutine.wrap(function() return alc.map({1}, function() return alc.map({1}, function() return alc.llm('x') end)[1] end)[1] end)()",
    "a kept call": "local ask = alc.specify return ask('x')",
    "a schema": "return alc.llm('x', {schema = {type = 'string'}})",
    "the cache": "return alc.cache('x')",
}
ARITHMETIC = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "pow": "^",
    "idiv": "//",
    "band": "&",
    "bor": "|",
    "bxor": "~",
    "shl": "<<",
    "shr": ">>",
}
PLACES |= {
    f"__{name}": f"return setmetatable({{}}, {{__{name} = function() return alc.llm('x') end}}) {sign} 1"
    for name, sign in ARITHMETIC.items()
}


@pytest.mark.parametrize("thawed", [False, True], ids=["undisturbed", "thawed"])
@pytest.mark.parametrize("place", PLACES)
def test_a_query_waits_in(lua, place, thawed):
    outcome, events, _ = answered(lua, PLACES[place], thawed=thawed)
    assert value(outcome) == "a1"
    assert [event.type for event in events] == ["query"]


LOST = {"close after an error", "xpcall with arguments"}
"""Places where the script itself drops the error."""


@pytest.mark.parametrize("place", [place for place in PLACES if place not in LOST])
def test_an_error_answer_raises_in(lua, place):
    source = f"local ok, error = pcall(function() {PLACES[place]} end) return {{code = error.code, text = tostring(error)}}"
    outcome, _, _ = answered(lua, source, lambda query: Failure("too busy", "BUSY"), thawed=True)
    assert value(outcome) == {"code": "BUSY", "text": "too busy"}


NESTED = """
local log = {}
local function say(...) log[#log + 1] = table.concat({...}, ' ') print(...) end
local function level(n)
  return coroutine.wrap(function(x)
    local guard <close> = setmetatable({}, {__close = function() say('close', n, alc.llm('c' .. n)) end})
    if n > 0 then
      local inner = level(n - 1)
      local a = inner(x)
      local b = coroutine.yield(a .. n)
      return inner(b)
    end
    local ok, v = pcall(function()
      local t = {5, 3, 4, 1, 2}
      table.sort(t, function(a, b) alc.llm('s' .. a .. b) return a < b end)
      local s = ('a-b-c'):gsub('%w', function(c) return alc.llm('g' .. c) end)
      return table.concat(t) .. s .. x
    end)
    local y = coroutine.yield(v)
    local ok, e = pcall(function()
      local g <close> = setmetatable({}, {__close = function(_, e) say('inner', e.code, alc.llm('i')) end})
      error({code = 'END', message = y .. alc.llm('last')})
    end)
    return e
  end)
end
local co = level(3)
local first = co('in')
local e = co('mid')
say(first, e.code, e.message)
return log
"""


def test_a_program_that_waits_everywhere_ends_with_the_same_bytes_thawed_or_not(lua):
    undisturbed = answered(lua, NESTED, lambda query: query.payload["prompt"].upper())
    thawed = answered(lua, NESTED, lambda query: query.payload["prompt"].upper(), thawed=True)
    assert undisturbed == thawed
    log = value(undisturbed[0])
    assert log == ["inner END I", "close 0 C0", "close 1 C1", "close 2 C2", "close 3 C3", "12345GA-GB-GCin123 END midLAST"]


def test_answers_go_to_the_call_that_asked(lua):
    source = "local out = {} for i = 1, 5 do local co = coroutine.wrap(function(p) coroutine.yield(alc.llm(p)) return alc.llm(p .. '!') end) out[#out + 1] = co('p' .. i) out[#out + 1] = co() end return out"
    expected = [f"<p{i}{end}>" for i in range(1, 6) for end in ("", "!")]
    assert value(answered(lua, source, lambda query: f"<{query.payload['prompt']}>", thawed=True)[0]) == expected


def test_a_query_that_the_script_cannot_end_early(lua):
    """Nothing runs while an execution waits: neither pcall nor a coroutine's end loses the query."""
    with lua.create() as sandbox:
        outcome = sandbox.evaluate("local co = coroutine.wrap(function() pcall(alc.llm, 'x') return 'after' end) return co()")
        assert isinstance(outcome, Paused)
        assert sandbox.resume() == Paused((), (1,), None, ())
        assert value(sandbox.resume({1: None})) == "after"


def test_variables_close_at_the_end_of_a_failed_execution_and_may_wait(lua):
    source = "local c <close> = setmetatable({}, {__close = function(_, e) print('closing', e) print(alc.llm('bye')) end}) error('boom', 0)"
    outcome, events, _ = answered(lua, source, lambda query: "ok", thawed=True)
    assert failure(outcome).message == "boom"
    assert "in function 'error'" in outcome.error.stack
    assert [event.payload.get("text") for event in events] == ["closing\tboom", None, "ok"]


BATCHES = {
    "return alc.llm_batch{'a', {prompt = 'b', max = 1}}": [("llm", {"prompt": "a"}), ("llm", {"prompt": "b", "max": 1})],
    "return alc.query_batch{{kind = 'k', payload = 1}, {kind = 'l'}}": [("k", 1), ("l", None)],
}


@pytest.mark.parametrize("source", BATCHES)
def test_batches_ask_all_at_once(lua, source):
    with lua.create() as sandbox:
        outcome = sandbox.evaluate(source)
        assert [(query.kind, query.payload) for query in outcome.queries] == BATCHES[source]
        assert isinstance(sandbox.resume({2: None}), Paused)
        assert value(sandbox.resume({1: "A"})) == ["A", None]


def test_a_failed_answer_of_a_batch_raises_when_all_are_there(lua):
    with lua.create() as sandbox:
        sandbox.evaluate("local ok, e = pcall(alc.llm_batch, {'a', 'b', 'c'}) return {ok, e.message}")
        assert isinstance(sandbox.resume({2: Failure("second")}), Paused)
        assert value(sandbox.resume({1: "A", 3: Failure("third")})) == [False, "second"]


@pytest.mark.parametrize("size", [1, 32, 33, 1000])
def test_batches_of_any_size(lua, size):
    outcome, _, _ = answered(
        lua, f"local t = {{}} for i = 1, {size} do t[i] = 'p' .. i end return alc.llm_batch(t)", lambda query: query.id
    )
    assert value(outcome) == list(range(1, size + 1))


PAYLOADS = {
    "alc.llm('p', {system = 's', prompt = 'ignored'})": ("llm", {"prompt": "p", "system": "s"}),
    "alc.llm({{role = 'user', content = 'c'}}, {n = 1})": ("llm", {"messages": [{"role": "user", "content": "c"}], "n": 1}),
    "alc.llm({prompt = 'x', n = 2}, {n = 1})": ("llm", {"prompt": "x", "n": 2}),
    "alc.ask('q?', {options = {'a'}})": ("ask", {"question": "q?", "options": ["a"]}),
    "alc.approve('rm')": ("approve", {"question": "rm"}),
    "alc.tool('t')": ("tool", {"name": "t", "args": {}}),
    "alc.tool('t', {1})": ("tool", {"name": "t", "args": [1]}),
    "alc.query('x')": ("x", None),
    "alc.query('x', {1})": ("x", [1]),
    "hf.llm('p')": ("llm", {"prompt": "p"}),
}


@pytest.mark.parametrize("source", PAYLOADS)
def test_payloads(lua, source):
    (query,) = run(lua, source).queries
    assert (query.kind, query.payload) == PAYLOADS[source]


WRONG = [
    "alc.llm()",
    "alc.llm(nil)",
    "alc.llm('x', 5)",
    "alc.query()",
    "alc.query_batch{1}",
    "alc.query_batch{{}}",
    "alc.query_batch{{kind = 1}}",
]
WRONG += [
    "alc.llm_batch{'a', true}",
    "alc.llm_batch(1)",
    "alc.tool()",
    "alc.sleep('x')",
    "alc.sleep(0/0)",
    "alc.sleep(math.huge)",
    "alc.call()",
]


@pytest.mark.parametrize("source", WRONG)
def test_wrong_arguments_are_refused_before_anything_is_asked(lua, source):
    outcome = run(lua, source)
    assert isinstance(outcome, Failed)
    assert "bad argument #" in outcome.error.message
    assert outcome.events == ()


def test_sleeping_anywhere(lua):
    with lua.create() as sandbox:
        source = "return coroutine.wrap(function() local ok = pcall(alc.sleep, 0.5) return ok and os.clock() end)()"
        assert sandbox.evaluate(source, now=NOW).wake_at == NOW + 0.5
        assert isinstance(sandbox.resume(now=NOW + 1), Finished)
        assert isinstance(sandbox.evaluate("alc.sleep(0) alc.sleep(-1)"), Finished)


def test_a_kind_may_hold_any_character(lua):
    with lua.create() as sandbox:
        assert sandbox.evaluate("alc.query('a\\0b', {})").queries[0].kind == "a\0b"
