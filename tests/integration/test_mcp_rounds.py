"""Questions in the middle of a call: what becomes of each kind, and when the client is told to answer by itself after all.

The server is in this process, and the client is the SDK's: what is between them is tested elsewhere.
"""

import asyncio
import time
from contextlib import asynccontextmanager

import pytest
from mcp import Client, types

from holdfast.control import Holdfast
from holdfast.mcp._progress import Progress
from holdfast.mcp._rounds import MOST_ROUNDS
from holdfast.mcp._server import Strategies
from tests.mcp_host import MCPError, text


class People:
    """Whoever is asked: says what it was told to say, and remembers what it was asked."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []

    async def __call__(self, context, params):
        self.asked.append(params)
        said = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return said(params) if callable(said) else said


def accepts(value):
    def said(params):
        (name,) = params.requested_schema["properties"]
        return types.ElicitResult(action="accept", content={name: value})

    return said


WORD = types.TextContent(type="text", text="Ada")
PICTURE = types.ImageContent(type="image", data="aGk=", mime_type="image/png")


def said_by(content):
    """What a model says that does not always say words, or anything."""
    return types.CreateMessageResultWithTools(role="assistant", content=content, model="m-1")


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def hf(runner):
    opened = runner.run(Holdfast.open().__aenter__())
    yield opened
    runner.run(opened.__aexit__())


@pytest.fixture
def connected(hf):
    """Connects a client."""

    @asynccontextmanager
    async def connecting(model=None, person=None, state_s=60.0):
        served = Strategies(hf, secret=b"x" * 32, state_s=state_s)
        async with Client(served.server, sampling_callback=model, elicitation_callback=person) as client:
            yield client

    return connecting


async def told(client, code, **more):
    result = await client.call_tool("run", {"code": code, **more})
    assert not result.is_error, result.content
    return result.structured_content


def test_what_a_script_asks_of_a_model_reaches_it(runner, connected):
    model = People(text("four"))
    code = """return alc.llm({messages = {{role = "system", content = "Be brief."}, {role = "user", content = "2+2?"},
        {role = "assistant", content = {{type = "text", text = "five"}}}, {role = "user", content = "No."}}},
        {system = "You count.", max_tokens = 9, temperature = 0.5, model = "big", stop = "!", role = "judge", grounded = true, schema = {type = "string"}})"""

    async def work():
        async with connected(model) as client:
            assert (await told(client, code))["result"] == "four"

    runner.run(work())
    (asked,) = model.asked
    ours = 'Answer with JSON that fits this JSON Schema, and with nothing else: {"type": "string"}'
    assert asked.system_prompt == f"You count.\n\nBe brief.\n\n{ours}"
    assert [(one.role, one.content.text) for one in asked.messages] == [
        ("user", "2+2?"),
        ("assistant", "five"),
        ("user", "No."),
    ]
    assert (asked.max_tokens, asked.temperature, asked.stop_sequences) == (9, 0.5, ["!"])
    assert [hint.name for hint in asked.model_preferences.hints] == ["big"]
    assert asked.metadata == {"role": "judge", "grounded": True}


def test_people_choose_approve_and_say(runner, connected):
    person = People(accepts('{"n": 1}'), accepts(False), accepts("Ada"))
    code = (
        "return {alc.ask('which?', {options = {'a', {n = 1}}}), alc.approve('sure?', {options = {'y', 'n'}}), alc.ask('who?')}"
    )

    async def work():
        async with connected(person=person) as client:
            assert (await told(client, code))["result"] == [{"n": 1}, False, "Ada"]

    runner.run(work())
    assert [one.message for one in person.asked] == ["which?", "sure?", "who?"]
    assert person.asked[0].requested_schema["properties"]["answer"]["enum"] == ["a", '{"n": 1}']
    assert person.asked[1].requested_schema["properties"] == {"approved": {"type": "boolean"}}  # whatever else a script says


@pytest.mark.parametrize(
    ("model", "person", "code"),
    [
        (None, People(accepts("x")), "return alc.llm('?')"),
        (People(text("x")), None, "return alc.ask('?')"),
        (People(text("x")), People(accepts("x")), "return alc.tool('weather', {})"),
        (
            People(text("x")),
            People(accepts("x")),
            "return alc.llm({messages = {{role = 'user', content = {{type = 'image'}}}}})",
        ),
    ],
)
def test_what_a_client_cannot_be_asked_it_is_told(runner, connected, model, person, code):
    async def work():
        async with connected(model, person) as client:
            assert (await told(client, code))["status"] == "needs_response"

    runner.run(work())
    assert not any(one.asked for one in (model, person) if one)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("return alc.ask('who?')", types.ElicitResult(action="decline")),
        ("return alc.ask('who?')", types.ElicitResult(action="cancel")),
        ("return alc.ask('who?')", types.ElicitResult(action="accept")),
        ("return alc.ask('who?')", accepts(7)),
        ("return alc.ask('who?', {options = {'Ada', 'Bob'}})", accepts("Eve")),
        ("return alc.approve('sure?')", accepts("true")),
        ("return alc.approve('sure?')", accepts(1)),
        ("return alc.llm('who?')", said_by(PICTURE)),
        ("return alc.llm('who?')", said_by([WORD, PICTURE])),
        ("return alc.llm('who?')", said_by([])),
    ],
)
def test_what_is_no_answer_leaves_the_query_open(runner, connected, code, said):
    async def work():
        async with connected(People(said), People(said)) as client:
            left = await told(client, code)
            assert (left["status"], left["query_id"]) == ("needs_response", "q-1")
            given = {"session_id": left["session_id"], "query_id": "q-1", "response": True if "approve" in code else "Ada"}
            assert (await client.call_tool("continue", given)).structured_content["result"] == given["response"]

    runner.run(work())


def test_what_others_have_answered_of_a_round_is_taken(runner, connected):
    """A model answers, a person declines, and the person is asked by other means."""

    async def work():
        async with connected(People(text("m")), People(types.ElicitResult(action="decline"))) as client:
            code = "await Promise.all([llm('one?'), ask('two?')])"
            left = await told(client, code, language="javascript")
            assert (left["query_id"], left["kind"]) == ("q-2", "ask")
            given = {"session_id": left["session_id"], "query_id": "q-2", "response": "p"}
            assert (await client.call_tool("continue", given)).structured_content["result"] == ["m", "p"]

    runner.run(work())


def test_a_client_is_not_asked_for_ever(runner, connected):
    model = People(text("x"))
    code = "for n = 1, 20 do alc.llm('n' .. n) end return 'done'"

    async def work():
        async with connected(model) as client:
            left = await told(client, code)
            assert len(model.asked) == MOST_ROUNDS < client.input_required_max_rounds
            assert (left["status"], left["query_id"]) == ("needs_response", f"q-{MOST_ROUNDS + 1}")
            given = {"session_id": left["session_id"], "query_id": left["query_id"], "response": "x"}
            left = (await client.call_tool("continue", given)).structured_content
            assert len(model.asked) == 2 * MOST_ROUNDS
            assert left["query_id"] == f"q-{2 * MOST_ROUNDS + 2}"

    runner.run(work())


def test_a_state_is_good_for_a_while(runner, connected):
    async def work():
        async with connected(People(text("x")), state_s=0.05) as client:
            first = await client.session.call_tool("run", {"code": "return alc.llm('?')"}, allow_input_required=True)
            until = time.time() + 0.05
            while time.time() <= until:
                await asyncio.sleep(0.01)
            with pytest.raises(MCPError, match="Invalid or expired requestState"):
                await client.session.call_tool(
                    "run",
                    {"code": "return alc.llm('?')"},
                    input_responses={"q-1": text("x")},
                    request_state=first.request_state,
                    allow_input_required=True,
                )
            (waiting,) = (await client.call_tool("status", {"limit": 1})).structured_content["sessions"]
            assert waiting["pending_queries"] == 1

    runner.run(work())


def test_answers_to_what_was_not_asked_are_no_answers(runner, connected):
    async def work():
        async with connected(People(text("x")), People(accepts("x"))) as client:
            call = {"code": "return {alc.llm('one?'), alc.llm('two?')}"}
            first = await client.session.call_tool("run", call, allow_input_required=True)
            answers = {
                "q-1": types.ElicitResult(action="accept", content={"answer": "x"}),
                "q-2": text("early"),
                "q-9": text("?"),
            }
            second = await client.session.call_tool(
                "run", call, input_responses=answers, request_state=first.request_state, allow_input_required=True
            )
            assert (second.structured_content["status"], second.structured_content["query_id"]) == ("needs_response", "q-1")

    runner.run(work())


def test_a_state_is_for_what_was_asked_with_it_though_more_is_open_by_now(runner, connected):
    async def work():
        async with connected(People(text("x"))) as client:
            call = {"code": "return {alc.llm('one?'), alc.llm('two?')}"}
            first = await client.session.call_tool("run", call, allow_input_required=True)
            (waiting,) = (await client.call_tool("status", {"limit": 1})).structured_content["sessions"]
            given = {"session_id": waiting["session_id"], "query_id": "q-1", "response": "by another"}
            await client.session.call_tool("continue", given, allow_input_required=True)
            options = {
                "input_responses": {"q-1": text("late"), "q-2": text("early")},
                "request_state": first.request_state,
                "allow_input_required": True,
            }
            second = await client.session.call_tool("run", call, **options)
            assert list(second.input_requests) == ["q-2"]
            options |= {"input_responses": {"q-2": text("second")}, "request_state": second.request_state}
            done = await client.session.call_tool("run", call, **options)
            assert done.structured_content["result"] == ["by another", "second"]

    runner.run(work())


@pytest.mark.parametrize("word", ["a\0", "\ud800"])
def test_an_answer_is_held_to_what_arguments_are_held_to(runner, connected, word):
    async def work():
        async with connected(People(text("x"))) as client:
            call = {"code": "return alc.llm('?')"}
            first = await client.session.call_tool("run", call, allow_input_required=True)
            options = {"input_responses": {"q-1": text(word)}, "request_state": first.request_state}
            refused = await client.session.call_tool("run", call, **options)
            assert refused.is_error
            (waiting,) = (await client.call_tool("status", {"limit": 1})).structured_content["sessions"]
            assert refused.content[0].text.startswith("VALIDATION_ERROR: the answers have ")
            assert refused.content[0].text.endswith(f"(session {waiting['session_id']})")
            assert waiting["pending_queries"] == 1

    runner.run(work())


def test_an_answer_after_the_run_was_cancelled_changes_nothing(runner, connected):
    async def work():
        async with connected(People(text("x"))) as client:
            call = {"code": "return alc.llm('?')"}
            first = await client.session.call_tool("run", call, allow_input_required=True)
            (waiting,) = (await client.call_tool("status", {"limit": 1})).structured_content["sessions"]
            await client.call_tool("cancel", {"session_id": waiting["session_id"]})
            options = {
                "input_responses": {"q-1": text("late")},
                "request_state": first.request_state,
                "allow_input_required": True,
            }
            late = await client.session.call_tool("run", call, **options)
            assert late.structured_content["status"] == "cancelled"

    runner.run(work())


def test_progress_that_is_being_told_when_the_run_ends_is_told_once(runner, hf):
    told = []

    async def work():
        telling, reading = asyncio.Event(), asyncio.Event()

        async def report(step, total, message):
            telling.set()
            await reading.wait()
            told.append(step)

        progress = Progress(hf, report)
        await hf.strategies.run("for n = 1, 3 do alc.progress(n, 3) end return 1", began=progress.follow_new)
        await telling.wait()
        ending = asyncio.create_task(progress.end())
        await asyncio.sleep(0)
        reading.set()
        await ending

    runner.run(work())
    assert told == [1, 2, 3]
