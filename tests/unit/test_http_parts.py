"""Parts of the REST API that need no server."""

import json
import logging

import pytest

from holdfast.control.plain import moment
from holdfast.http._access import AccessLog
from holdfast.http._answers import encoded
from holdfast.http._call import Call, Caller
from holdfast.http._errors import RateLimited
from holdfast.http._hosts import Hosts
from holdfast.http._metrics import Counter, Histogram
from holdfast.http._shares import Shares


def test_what_has_no_place_in_json_is_mended() -> None:
    assert json.loads(encoded({"a": "x\ud800y", "b": [float("nan"), float("-inf")], "c": "😀"})) == {
        "a": "x\ufffdy",
        "b": [None, None],
        "c": "😀",
    }


def test_values_nested_deeper_than_the_serialiser_goes() -> None:
    deep: list[object] = []
    for _ in range(300):
        deep = [deep]
    assert encoded(deep) == b"[" * 301 + b"]" * 301


def test_times() -> None:
    assert moment(0) == "1970-01-01T00:00:00.000Z"
    assert moment(10**18) == "9999-12-31T23:59:59.999Z"


def _call(hot: bool) -> Call:
    headers = {b"authorization": b"Bearer hf_secret"}
    return Call("id", "POST", Caller("token-1", frozenset()), headers, route="/api/v1/x", status=201, hot=hot)


def test_the_access_log_leaves_hot_routes_out(caplog: pytest.LogCaptureFixture) -> None:
    log = AccessLog(True)
    with caplog.at_level(logging.INFO, "holdfast.access"):
        log(_call(hot=True), 0.001)
        assert not caplog.records
        log(_call(hot=False), 0.0015)
        AccessLog(False)(_call(hot=False), 0.001)
    (record,) = caplog.records
    assert record.__dict__["fields"] == {
        "request_id": "id",
        "method": "POST",
        "route": "/api/v1/x",
        "status": 201,
        "duration_ms": 1.5,
        "token": "token-1",
    }
    with caplog.at_level(logging.DEBUG, "holdfast.access"):
        log(_call(hot=True), 0.001)
    assert len(caplog.records) == 2
    assert "hf_secret" not in repr([record.__dict__ for record in caplog.records])


def test_a_share_fills_up_again() -> None:
    now = [0.0]
    shares = Shares(2, 100, lambda: now[0])
    for _ in range(2):
        shares.enter("a")
    with pytest.raises(RateLimited) as refused:
        shares.enter("a")
    assert refused.value.retry_after == 1
    shares.enter("b")
    now[0] += 0.5
    shares.enter("a")
    with pytest.raises(RateLimited):
        shares.enter("a")


def test_addresses_have_their_own_shares_and_only_so_many_are_known() -> None:
    shares = Shares(2, 100, lambda: 0.0)
    for number in range(10_005):
        shares.enter(str(number), kind="address")
    assert len(shares._buckets) == 10_000
    shares.enter("10004", kind="address")
    with pytest.raises(RateLimited):
        shares.enter("10004", kind="address")


def test_so_many_at_once() -> None:
    shares = Shares(0, 2)
    shares.enter("a")
    shares.enter("a")
    with pytest.raises(RateLimited):
        shares.enter("a")
    shares.leave("a")
    shares.enter("a")


def test_the_address_that_is_listened_on_is_ours_unless_it_is_everywhere() -> None:
    assert Hosts("192.0.2.7:80", (), ()).knows(b"192.0.2.7")
    assert not Hosts("0.0.0.0:80", (), ()).knows(b"0.0.0.0")
    assert not Hosts("[::]:80", (), ()).knows(b"[::]:80")


def test_figures() -> None:
    counter = Counter("c", "Told.", ("a",))
    counter.add('x"y\n')
    assert counter.lines()[-1] == 'c{a="x\\"y\\n"} 1'
    histogram = Histogram("h", "Told.")
    for ms in (0.5, 3, 1e9):
        histogram.add(ms)
    lines = histogram.lines()
    assert 'h_bucket{le="1"} 1' in lines
    assert 'h_bucket{le="5"} 2' in lines
    assert 'h_bucket{le="+Inf"} 3' in lines
    assert "h_count 3" in lines
