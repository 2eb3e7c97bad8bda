"""What tests of forks share: a script's fork in both languages, written with nothing but the protocol, and words for what branches do."""

from typing import Any

from holdfast import Holdfast, Turn
from holdfast.domain import EXECUTION, Execution, Query
from holdfast.runtime import branches
from tests.acceptance.scenes import eventually, session

LIBRARY = {
    "javascript": """
        globalThis.leave = end => hf.tool("holdfast.exit", end)
        globalThis.fork = async (names, run, more = {}) => {
            const told = await hf.tool("holdfast.fork", {strategies: names, ...more})
            if (!told.child) return told.results
            let end
            try { end = {ok: true, value: await run(names[told.child - 1], told.child)} }
            catch (error) { end = {ok: false, error: error.message} }
            await leave(end)
        }
    """,
    "lua": """
        function leave(finish) return alc.query("tool", {name = "holdfast.exit", args = finish}) end
        function fork(names, run, more)
            local args = {strategies = names}
            for key, value in pairs(more or {}) do args[key] = value end
            local told = alc.query("tool", {name = "holdfast.fork", args = args})
            if not told.child then return told.results end
            local ok, value = pcall(run, names[told.child], told.child)
            leave(ok and {ok = true, value = value} or {ok = false, error = tostring(value)})
        end
    """,
}
ASK = {
    "javascript": "await fork(['a', 'b', 'c'], name => llm(name + '?'))",
    "lua": "return fork({'a', 'b', 'c'}, function(name) return alc.llm(name .. '?') end)",
}
DEEP = {
    "javascript": "await fork(['a', 'b'], async name => [name, await fork(['x', 'y'], inner => llm(name + inner))])",
    "lua": """return fork({'a', 'b'}, function(name)
        return {name, fork({'x', 'y'}, function(inner) return alc.llm(name .. inner) end)}
    end)""",
}


async def forking(hf: Holdfast, language: str, **options: Any) -> Any:
    """The id of a session that knows `fork` and `leave`."""
    here = await session(hf, language, **options)
    await hf.executions.run(here, LIBRARY[language])
    return here


def the_fork(turn: Turn) -> Query:
    """The fork that an execution waits for."""
    (found,) = [query for query in turn.queries if branches.is_fork(query)]
    return found


async def branch_asks(hf: Holdfast, branch: Any) -> Query:
    """The only thing that a branch asks somebody outside."""
    (query,) = [query for query in (await hf.queries.list(branch)).items if query.kind != "tool"]
    return query


async def latest(hf: Holdfast, branch: Any) -> Execution:
    found: Execution = (await hf.executions.list(branch)).items[0]
    return found


async def ended(hf: Holdfast, branch: Any) -> Execution:
    """What a branch came to, when it has."""

    async def look() -> Execution | None:
        execution = await latest(hf, branch)
        return execution if EXECUTION.is_final(execution.status) else None

    found: Execution = await eventually(look, 30)
    return found


async def answer_all(hf: Holdfast, turn: Turn) -> list[Any]:
    """Answers what all branches ask, the last first, with what was asked in capitals. Gives the branches."""
    children = branches.children(the_fork(turn))
    for child in reversed(children):
        query = await branch_asks(hf, child)
        await hf.queries.answer(child, query.payload["prompt"].upper(), query=query.id)
    return children


def told(*results: Any) -> list[dict[str, Any]]:
    """What came of branches a, b and so on: of each that has failed, the error."""
    return [
        {"strategy": "abcdefgh"[index]}
        | ({"ok": False, "error": result.args[0]} if isinstance(result, Exception) else {"ok": True, "result": result})
        for index, result in enumerate(results)
    ]
