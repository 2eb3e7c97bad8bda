"""Whatever is done with a session, in whatever order, it is where a simple model says it is."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import HoldfastError, Settings
from tests.acceptance.scenes import evaluate, opened, template

# A script that asks thrice and notes each answer, and one that ends at once.
ASKS = {
    "javascript": "globalThis.log ??= []; for (let i = 0; i < 3; i++) log.push(await ask('?')); log.length",
    "lua": "log = log or {} for i = 1, 3 do table.insert(log, alc.ask('?')) end return #log",
}
NOTES = {
    "javascript": "globalThis.log ??= []; log.push('{n}'); log.length",
    "lua": "log = log or {{}} table.insert(log, '{n}') return #log",
}
LOG = {"javascript": "globalThis.log ?? []", "lua": "return log and #log > 0 and log or nil"}

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["ask", "note", "answer", "answer", "answer", "again", "fork", "rewind", "prune", "cancel", "reopen", "hibernate"]
        ),
        st.integers(0, 30),
    ),
    min_size=4,
    max_size=14,
)


class Model:
    """A session as it should be: what it has noted, what it waits for, and the same at each of its checkpoints."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.left = 0  # answers that the present execution still waits for
        self.points: dict[int, tuple[list[str], int]] = {0: ([], 0)}
        self.given: dict[str, str] = {}

    def save(self, head: int) -> None:
        self.points[head] = (list(self.log), self.left)


class Play:
    """Does the same with Holdfast and with the model, and compares."""

    def __init__(self, address: str, language: str) -> None:
        self.address, self.language = address, language
        self.counter = 0
        self.models: dict[Any, Model] = {}

    async def run(self, actions: list[tuple[str, int]]) -> None:
        await self._open()
        try:
            made = await self.hf.sessions.create(await template(self.hf, self.language))
            self.models[made.id] = Model()
            for action, number in actions:
                here = list(self.models)[number % len(self.models)]
                await getattr(self, "_" + action)(here, self.models[here], number)
                await self._check(here)
            for here in list(self.models):
                await self._check_checkpoints(here)
        finally:
            await self.hf.__aexit__(None, None, None)

    async def _open(self) -> None:
        self.hf = opened(self.address, settings=Settings(resident=2))
        await self.hf.__aenter__()

    def _word(self) -> str:
        self.counter += 1
        return f"w{self.counter}"

    async def _ask(self, here: Any, model: Model, number: int) -> None:
        if model.left:
            with pytest.raises(HoldfastError, match="paused"):
                await self.hf.executions.run(here, ASKS[self.language])
            return
        turn = await self.hf.executions.run(here, ASKS[self.language])
        model.left = 3
        model.save(turn.session.head)

    async def _note(self, here: Any, model: Model, number: int) -> None:
        if model.left:
            return
        word = self._word()
        turn = await self.hf.executions.run(here, NOTES[self.language].replace("{n}", word).replace("{{}}", "{}"))
        model.log.append(word)
        assert turn.execution.result is not None
        assert turn.execution.result["json"] == len(model.log)
        model.save(turn.session.head)

    async def _answer(self, here: Any, model: Model, number: int) -> None:
        if not model.left:
            return
        word = self._word()
        query = (await self.hf.queries.list(here)).items[0].id
        turns = await asyncio.gather(*(self.hf.queries.answer(here, word, query=query) for _ in range(1 + number % 2)))
        model.log.append(word)
        model.left -= 1
        model.given[query] = word
        model.save(turns[0].session.head)

    async def _again(self, here: Any, model: Model, number: int) -> None:
        """Old answers once more, and others for old questions."""
        for query, word in list(model.given.items())[-3:]:
            await self.hf.queries.answer(here, word, query=query)
            with pytest.raises(HoldfastError, match="already responded"):
                await self.hf.queries.answer(here, "other", query=query)

    async def _fork(self, here: Any, model: Model, number: int) -> None:
        if len(self.models) > 4:
            return
        at = sorted(model.points)[number % len(model.points)]
        fork = await self.hf.sessions.fork(here, at)
        other = self.models[fork.id] = Model()
        other.log, other.left = list(model.points[at][0]), model.points[at][1]
        other.points = {0: (list(other.log), other.left)}
        assert fork.state == ("paused" if other.left else "ready")

    async def _rewind(self, here: Any, model: Model, number: int) -> None:
        at = sorted(model.points)[number % len(model.points)]
        rewound = await self.hf.sessions.rewind(here, at)
        model.log, model.left = list(model.points[at][0]), model.points[at][1]
        assert (rewound.head, rewound.state) == (at, "paused" if model.left else "ready")

    async def _prune(self, here: Any, model: Model, number: int) -> None:
        await self.hf.sessions.prune(here, keep=number % 4)
        kept = {node.number for node in await self.hf.sessions.checkpoints(here)}
        assert (await self.hf.sessions.get(here)).head in kept | {0}
        model.points = {at: state for at, state in model.points.items() if at == 0 or at in kept}

    async def _cancel(self, here: Any, model: Model, number: int) -> None:
        if not model.left:
            return
        execution = (await self.hf.sessions.get(here)).execution_id
        assert execution is not None
        await self.hf.executions.cancel(execution)
        model.left = 0
        model.save((await self.hf.sessions.get(here)).head)

    async def _reopen(self, here: Any, model: Model, number: int) -> None:
        await self.hf.__aexit__(None, None, None)
        await self._open()

    async def _hibernate(self, here: Any, model: Model, number: int) -> None:
        """Others are used, so that this one leaves the memory."""
        name = await template(self.hf, self.language)
        for _ in range(3):
            other = await self.hf.sessions.create(name)
            await evaluate(self.hf, other.id, LOG[self.language])
            await self.hf.sessions.delete(other.id)

    async def _check(self, here: Any) -> None:
        model = self.models[here]
        found = await self.hf.sessions.get(here)
        assert found.state == ("paused" if model.left else "ready")
        assert len((await self.hf.queries.list(here)).items) == (1 if model.left else 0)
        assert {node.number for node in await self.hf.sessions.checkpoints(here)} == model.points.keys() - {0}

    async def _check_checkpoints(self, here: Any) -> None:
        """Every checkpoint thaws to what the model has there."""
        model = self.models[here]
        for at, (log, left) in model.points.items():
            fork = await self.hf.sessions.fork(here, at)
            assert fork.state == ("paused" if left else "ready")
            if left:
                await self.hf.executions.cancel(fork.execution_id)
            assert (await evaluate(self.hf, fork.id, LOG[self.language]) or []) == log
            await self.hf.sessions.delete(fork.id)


@pytest.mark.parametrize(("language", "examples"), [("javascript", 12), ("lua", 18)])
def test_random_histories(language: str, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(ACTIONS)
    def play(actions: list[tuple[str, int]]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="holdfast-random-"))
        try:
            asyncio.run(Play(f"sqlite:///{folder}/work.db", language).run(actions))
        finally:
            shutil.rmtree(folder)

    play()
