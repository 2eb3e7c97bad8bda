"""What is special about a store in memory; what all stores do is in tests/contract/test_stores.py."""

import json
from uuid import uuid4

import pytest

from holdfast.domain import InvalidValue
from holdfast.store import StoreUnavailable, StoreUnknown, open_store
from holdfast.store._rows import cursor, pack, plain, read_cursor, read_plain, signed, unpack
from holdfast.store._sql import load_migrations, load_queries
from holdfast.store.memory import MemoryStore


def test_an_address_names_it() -> None:
    store = open_store("memory:")
    assert isinstance(store, MemoryStore)
    store.close()


@pytest.mark.parametrize(
    "address", ["", "memory", "memory:x", "sqlite:", "sqlite://", "sqlite:///", "mysql://host/db", "file.db"]
)
def test_an_address_that_names_nothing_is_refused(address: str) -> None:
    with pytest.raises(StoreUnknown):
        open_store(address)


def test_two_stores_in_memory_have_nothing_in_common() -> None:
    first, second = MemoryStore(), MemoryStore()
    first.create_document("a", {})
    assert second.list_documents() == []


def test_a_closed_store_keeps_nothing() -> None:
    store = MemoryStore()
    store.close()
    with pytest.raises(StoreUnavailable):
        store.get_document("a")
    with pytest.raises(StoreUnavailable):
        store.get_session(uuid4())


# ---- what stores share


@pytest.mark.parametrize(
    "value",
    [
        None,
        0,
        -0.0,
        1e-300,
        10**40,
        "",
        "a\0b",
        "\ud800",
        {"\udfff": ["\U0001f980"]},
        [[[]]],
        {"a": {"b": None}},
        True,
        "\u2028\x7f",
    ],
)
def test_values_survive_as_json(value: object) -> None:
    text = pack(value)
    text.encode()  # any database takes it
    assert "\0" not in text
    assert unpack(text) == value == json.loads(text)


def test_values_survive_that_are_nested_deeply() -> None:
    value: list[object] = []
    for _ in range(500):
        value = [value]
    assert unpack(pack(value)) == value


@pytest.mark.parametrize("value", [object(), {"a": [object()]}, {"a": print}])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue):
        pack(value)


@pytest.mark.parametrize("text", ["", "plain", "a\0b", "\ud800\udc00", "\x1a0000", "\x1a", "\x1a\x1a001a", "\U0001f980 \u05d0"])
def test_text_survives_in_a_column(text: str) -> None:
    written = plain(text)
    written.encode()
    assert "\0" not in written
    assert read_plain(written) == text


def test_different_texts_stay_different() -> None:
    texts = ["\0", "\x1a0000", "\x1a", "\x1a001a", "\x1a001a0000", "0000", "\ud800", "\x1ad800"]
    assert len({plain(text) for text in texts}) == len(texts)


def test_64_bits_fit_whether_they_have_a_sign_or_not() -> None:
    assert [signed(number) for number in (0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -1)] == [
        0,
        1,
        (1 << 63) - 1,
        -(1 << 63),
        -1,
        -1,
    ]


def test_a_cursor_is_only_good_for_its_kind_of_list() -> None:
    text = cursor("s", 12, -3)
    assert read_cursor("s", text, 2) == [12, -3]
    for kind, wrong, count in (
        ("q", text, 2),
        ("s", text, 1),
        ("s", text + "=", 2),
        ("s", text[:-1], 2),
        ("s", cursor("s", 1 << 63), 1),
    ):
        with pytest.raises(InvalidValue):
            read_cursor(kind, wrong, count)


def test_queries_are_found_by_name_and_include_one_another() -> None:
    queries = load_queries("sqlite")
    assert "SELECT s.id, s.template_id" in queries["get_session"]
    assert not any("{" in text or ";" in text for text in queries.values())
    assert len(load_migrations("sqlite")) >= 1
