"""What a script may ask: a wrong payload is refused where it asks, with the name of what is wrong."""

import pytest

from holdfast.domain import DEFAULT_MAX_TOKENS, InvalidValue, QueryKind, check_payload


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("llm", {"prompt": "?"}),
        ("llm", {"prompt": ""}),
        ("llm", {"prompt": "?", "messages": None, "system": None, "max_tokens": None, "grounded": None}),
        ("llm", {"messages": [{"role": "user", "content": "hi"}], "system": "s"}),
        ("llm", {"prompt": "?", "max_tokens": 1, "temperature": 0.7, "model": "m", "stop": ["x"], "schema": {}, "role": "any"}),
        ("llm", {"prompt": "?", "temperature": 1, "stop": "x", "timeout_ms": 5000, "default": {"any": 1}}),
        ("ask", {"question": "Which?", "options": ["a", {"value": "b"}], "hint": 1}),
        ("approve", {"question": "Deploy?", "timeout_ms": 0.5}),
        ("tool", {"name": "http", "args": [1, None]}),
        ("tool", {"name": "http"}),
    ],
)
def test_what_fits_is_taken(kind, payload):
    assert check_payload(kind, payload) is QueryKind(kind)


@pytest.mark.parametrize(
    ("kind", "payload", "text"),
    [
        ("llm", {}, "llm: give either a prompt or messages"),
        ("llm", {"prompt": "a", "messages": []}, "llm: give either a prompt or messages"),
        ("llm", {"prompt": 7}, "llm: prompt: "),
        ("llm", {"prompt": "?", "max_tokens": 0}, "llm: max_tokens: "),
        ("llm", {"prompt": "?", "max_tokens": 1.5}, "llm: max_tokens: "),
        ("llm", {"prompt": "?", "max_tokens": True}, "llm: max_tokens: "),
        ("llm", {"prompt": "?", "temperature": 11}, "llm: temperature: "),
        ("llm", {"prompt": "?", "grounded": "yes"}, "llm: grounded: "),
        ("llm", {"messages": "hi"}, "llm: messages: "),
        ("llm", {"messages": ["hi"]}, "llm: messages.0: "),
        ("llm", None, "llm: "),
        ("llm", "prompt", "llm: "),
        ("ask", {}, "ask: question: "),
        ("ask", {"question": "?", "options": "ab"}, "ask: options: "),
        ("approve", {"question": None}, "approve: question: "),
        ("tool", {"args": {}}, "tool: name: "),
        ("tool", {"name": "t", "timeout_ms": 0}, "tool: timeout_ms: "),
        ("timer", {"wake_at": 1}, "there is no query kind 'timer'; there are llm, ask, approve, tool"),
        ("x" * 1000, {}, f"there is no query kind '{'x' * 40}'; "),
    ],
)
def test_what_does_not_fit_is_refused_by_name(kind, payload, text):
    with pytest.raises(InvalidValue) as refusal:
        check_payload(kind, payload)
    assert str(refusal.value).startswith(text)


def test_the_default_of_max_tokens():
    assert DEFAULT_MAX_TOKENS == 1024
