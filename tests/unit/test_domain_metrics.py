"""Counters and tokens. Lines 39, 41 and 44 of algocline 6.3. That each pause and round is counted is the runtime's to show."""

import json
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain import Metrics, Spent, Tokens, TokenSource, estimate, estimated, prompt_parts, prompt_size, provided

COUNTS = st.integers(0, 2**40)
TOKENS = st.builds(Tokens, COUNTS, st.sampled_from(TokenSource))


def test_line_39_stats_have_algoclines_names():
    metrics = Metrics(elapsed_ms=7, llm_calls=2, pauses=1, rounds=1, prompt_chars=13, answer_chars=100)
    metrics.prompt_tokens, metrics.answer_tokens = estimated("hello" * 4), provided(9)
    assert metrics.stats(None) == {
        "auto": {
            "elapsed_ms": 7,
            "llm_calls": 2,
            "pauses": 1,
            "rounds": 1,
            "total_prompt_chars": 13,
            "total_response_chars": 100,
            "prompt_tokens": {"tokens": 5, "source": "estimated"},
            "response_tokens": {"tokens": 9, "source": "provided"},
            "total_tokens": {"tokens": 14, "source": "estimated"},
        },
        "custom": {},
    }
    assert metrics.spent == Spent(llm_calls=2, elapsed_ms=7, tokens=14)


def test_line_39_the_text_of_a_round_includes_the_system_prompt():
    asked = [{"prompt": "hello", "system": "sys"}, {"prompt": "world"}]
    assert sum(prompt_size(payload)[0] for payload in asked) == 13
    assert prompt_parts(asked[0]) == ("hello", "sys")
    assert prompt_parts(asked[1]) == ("world", "")


def test_line_39_one_query():
    metrics = Metrics()
    metrics.ask(len("test"), estimate("test"))
    assert (metrics.llm_calls, metrics.prompt_chars, metrics.answer_chars, metrics.rounds) == (1, 4, 0, 0)
    assert metrics.prompt_tokens == Tokens(1, TokenSource.ESTIMATED)
    assert metrics.answer_tokens == Tokens()


def test_line_39_texts_accumulate():
    metrics = Metrics()
    for length in (10, 20, 30):
        metrics.ask(len("p"), 1)
        metrics.answer(1, "x" * length, None, None)
    assert (metrics.llm_calls, metrics.prompt_chars, metrics.answer_chars) == (3, 3, 60)
    assert metrics.total_tokens == Tokens(3 + 3 + 5 + 8, TokenSource.ESTIMATED)


def test_line_41_what_the_host_has_counted_takes_the_place_of_estimates():
    metrics = Metrics()
    metrics.ask(len("hello world"), 3)
    metrics.ask(len("hello"), 2)
    metrics.answer(3, "four", 100, 50)
    assert metrics.prompt_tokens == Tokens(102, TokenSource.ESTIMATED)  # one prompt is still a guess
    assert metrics.answer_tokens == Tokens(50, TokenSource.PROVIDED)
    metrics.answer(2, "four", 10, None)
    assert metrics.prompt_tokens == Tokens(110, TokenSource.PROVIDED)
    assert metrics.answer_tokens == Tokens(51, TokenSource.ESTIMATED)


def test_line_39_messages_count_as_their_text():
    parts = [{"type": "text", "text": "b"}, {"type": "image"}, {"type": "text", "text": "c"}, "stray"]
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": parts}, {"role": "tool"}]
    assert prompt_parts({"messages": messages, "system": "s"}) == ("abc", "s")


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("hello world", 3), ("かきく", 2), ("abcdefか", 3), ("a", 1), ("か", 1), ("\x7f" * 4, 1)]
)
def test_line_41_estimates(text, tokens):
    assert estimate(text) == tokens


def test_line_41_a_prompt_and_its_system_prompt_are_estimated_together():
    assert estimated("hello world") + estimated("be brief") == Tokens(5, TokenSource.ESTIMATED)


@given(st.lists(TOKENS))
def test_line_41_a_sum_is_as_sure_as_its_weakest_part(parts):
    total = sum(parts, Tokens())
    assert total.tokens == sum(part.tokens for part in parts)
    weakest = [TokenSource.ESTIMATED, TokenSource.PROVIDED, TokenSource.DEFINITE]
    assert total.source == min((part.source for part in parts), key=weakest.index, default=TokenSource.DEFINITE)


def test_line_41_nothing_is_zero_for_certain():
    assert Tokens().as_dict() == {"tokens": 0, "source": "definite"}


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text()))
def test_line_44_what_a_script_records_is_beside_what_is_counted(custom):
    stats = Metrics(llm_calls=1).stats(None, custom)
    assert stats["custom"] == custom
    assert stats["auto"] == Metrics(llm_calls=1).stats(None)["auto"]


NAMES = [field.name for field in fields(Metrics)]
ALL = st.fixed_dictionaries({name: TOKENS if name.endswith("_tokens") else COUNTS for name in NAMES})


@given(ALL)
def test_metrics_survive_a_store_and_a_copy_is_of_its_own(values):
    metrics = Metrics(**values)
    assert Metrics.from_row(json.loads(json.dumps(metrics.as_row()))) == metrics
    twin = metrics.copy()
    assert twin == metrics
    twin.llm_calls += 1
    assert twin != metrics


def test_metrics_as_plain_data():
    plain = Metrics(cpu_us=1500).as_dict()
    assert plain["cpu_ms"] == 1.5
    assert "cpu_us" not in plain
    assert plain["total_tokens"] == {"tokens": 0, "source": "definite"}


def test_what_others_were_asked_on_its_behalf_counts_as_its_own():
    own, other = Metrics(elapsed_ms=5, steps=2, queries=1), Metrics(elapsed_ms=50, steps=20, queries=9, pauses=1, rounds=1)
    for metrics in (own, other):
        metrics.ask(10, 4)
    other.answer(4, "four", 3, 2)
    own.include(other)
    assert (own.elapsed_ms, own.steps, own.queries, own.pauses, own.rounds) == (5, 2, 1, 1, 1)
    assert (own.llm_calls, own.prompt_chars, own.answer_chars, own.estimated_prompts) == (2, 20, 4, 1)
    assert (own.prompt_tokens, own.answer_tokens) == (Tokens(7, TokenSource.ESTIMATED), Tokens(2, TokenSource.PROVIDED))
    own.answer(4, "", 1, 1)  # what its own prompt took is known now
    assert (own.prompt_tokens, own.answer_tokens) == (Tokens(4, TokenSource.PROVIDED), Tokens(3, TokenSource.PROVIDED))
