"""Attacks that worked once: on the process, on images, on the bridge. Each must now end in a typed error or a plain outcome."""

import struct
import subprocess
import sys
import threading
import time

import pytest
import zstandard

from holdfast.domain import Limits
from holdfast.sandbox import (
    Breached,
    Cancelled,
    Engine,
    EngineClosed,
    Evaluate,
    Finished,
    GuestFault,
    Host,
    ImageDamaged,
    ImageForeign,
    Label,
    NotPending,
    Paused,
    Resume,
    Source,
    UnknownQuery,
    ValueRefused,
)
from holdfast.sandbox import image as images
from holdfast.sandbox._delta import Delta

KEY = b"k" * 32
FOREVER = Limits(wall_ms=0, cpu_ms=0)


def forged(image, **changes):
    """A sealed image with a valid MAC whose head says something else; `payload` and `stated` replace its content."""
    payload = changes.pop("payload", Delta({}, b"").pack())
    stated = changes.pop("stated", len(payload))
    head = images._Head(
        images.Kind.TEMPLATE,
        image.template.guest.digest[:16],
        image.template.digest[:16],
        image.label,
        Label(),
        image.token,
        bytes(8),
        image.size,
    )._replace(**changes)
    body = bytearray(head.seal(Delta({}, b""), KEY)[: images._HEAD.size])
    struct.pack_into("<I", body, images._HEAD.size - 4, stated)
    body += zstandard.ZstdCompressor().compress(payload)
    return bytes(body) + images._mac(bytes(body), KEY)


@pytest.fixture
def image(javascript):
    with javascript.create() as sandbox:
        return sandbox.freeze()


@pytest.mark.parametrize("mapped", [True, False])
def test_an_image_that_is_smaller_than_a_template_is_refused(mapped):
    with Engine(mapped=mapped) as engine:
        guest = engine.guest("javascript")
        small = guest.template()
        large = guest.template(
            startup=[Source("s", "b = Array.from({length: 300}, (_, i) => new Uint8Array(65536).fill(i)); 0")]
        )
        with small.create() as sandbox:
            sealed = sandbox.freeze().seal(KEY)
        with pytest.raises(ImageForeign, match="smaller"):
            large.open(sealed, KEY)


def test_a_delta_cannot_shrink_the_memory(javascript, image):
    with javascript.create(limits=Limits(mem_mb=512)) as sandbox:
        sandbox.evaluate("big = new Uint8Array(64 << 20).fill(1); 0")
        grown = sandbox.freeze()
    sealed = forged(image, kind=images.Kind.DELTA, parent_token=grown.token)
    with pytest.raises(ImageDamaged, match="smaller"):
        javascript.open(sealed, KEY, grown)


def test_a_guest_that_points_outside_of_its_memory_is_refused(javascript):
    with javascript.create() as sandbox:
        honest = sandbox.freeze()
    at = javascript.guest.control_at
    for field in (4, 12):
        page = bytearray(honest.page(at // 4096))
        struct.pack_into("<I", page, at % 4096 + field, 0xFFFFF000)
        lying = images.Image(javascript, honest.size, {**honest.pages, at // 4096: bytes(page)}, Label())
        with pytest.raises(GuestFault, match="not its memory"):
            javascript.thaw(lying)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 9},
        {"payload": b""},
        {"payload": b"\1\0\0"},
        {"payload": struct.pack("<I", 1 << 30)},
        {"payload": struct.pack("<IIH", 1, 1 << 29, 1) + bytes(256)},
        {"payload": struct.pack("<IIH", 1, 0, 1) + bytes(255)},
        {"payload": bytes(1 << 28), "stated": 4},
    ],
    ids=["kind", "empty", "short", "count", "page", "blocks", "bomb"],
)
def test_forged_images_are_damaged(javascript, image, changes):
    with pytest.raises(ImageDamaged):
        javascript.open(forged(image, **changes), KEY)


def test_a_memory_of_no_size_is_refused(javascript, image):
    with pytest.raises(ImageForeign):
        javascript.open(forged(image, size=0), KEY)


@pytest.mark.parametrize("number", [-1, 1 << 64])
def test_numbers_that_do_not_fit_are_refused(javascript, number):
    with javascript.create() as sandbox, pytest.raises(ValueError, match="64 bits"):
        sandbox.freeze(Label(number=number)).seal(KEY)


def test_a_delta_knows_its_parent_even_if_labels_are_alike(javascript):
    with javascript.create() as sandbox:
        sandbox.evaluate("x = 1")
        first = sandbox.freeze()
        sandbox.evaluate("x = 2")
        second = sandbox.freeze()
        sandbox.evaluate("x = 3")
        third = sandbox.freeze()
    with pytest.raises(ImageForeign):
        javascript.open(third.seal(KEY, second), KEY, first)


def test_seed_and_zone_survive_a_freeze_before_the_first_step(javascript, image):
    drawn = {javascript.thaw(javascript.fork(image).freeze()).evaluate("Math.random()").result.value for _ in range(3)}
    assert len(drawn) == 3
    berlin = javascript.create(zone="Asia/Tokyo").freeze()
    assert javascript.thaw(berlin).evaluate("new Date(0).getHours()").result.value == 9


def test_cancel_before_a_step_and_from_a_host_function(javascript):
    with javascript.create() as sandbox:
        sandbox.cancel()
        assert sandbox.evaluate("1") == Cancelled()
        assert sandbox.closed
    with javascript.create(host=Host({"stop": lambda: sandbox.cancel()})) as sandbox:
        outcome = sandbox.evaluate("console.log('before'); hf.call('stop')")
        assert isinstance(outcome, Cancelled)
        assert len(outcome.events) == 1


def test_a_closed_engine_runs_nothing(language):
    engine = Engine()
    template = engine.guest(language).template()
    busy, idle = template.create(limits=FOREVER), template.create()
    outcomes = []
    loop = "for (;;) {}" if language == "javascript" else "while true do end"
    thread = threading.Thread(target=lambda: outcomes.append(busy.evaluate(loop)))
    thread.start()
    time.sleep(0.2)
    engine.close()
    thread.join()
    assert outcomes == [Cancelled()]
    with pytest.raises(EngineClosed):
        idle.evaluate("1")
    assert engine.ticker.running() == []


INTERRUPTED = """
import os, signal, threading
from holdfast.domain import Limits
from holdfast.sandbox import Engine, Host
signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent in the background may have it ignored
engine = Engine()
template = engine.guest("javascript").template()
forever = Limits(wall_ms=0, cpu_ms=0)
def inner():
    with template.create(limits=forever) as other:
        other.evaluate("let a = []; for (;;) a = [a.length]")
for script in ("for (;;) {}", "hf.call('inner')"):
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    sandbox = template.create(limits=forever, host=Host({"inner": inner}))
    try:
        sandbox.evaluate(script)
    except KeyboardInterrupt:
        assert sandbox.closed
        print("interrupted")
"""


def test_ctrl_c_stops_a_guest_and_harms_nothing():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["interrupted", "interrupted"]
    assert "ignored" not in done.stderr


FORKED = """
import os, signal
from holdfast.sandbox import Engine
template = Engine().guest("lua").template()
for _ in range(20):
    template.create().evaluate("1")
    child = os.fork()
    if not child:
        signal.alarm(20)
        template.create().evaluate("1")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_children_of_a_process_that_ticks_can_run_guests():
    subprocess.run([sys.executable, "-c", FORKED], timeout=60, check=True)


def test_what_is_not_granted_costs_the_host_nothing(javascript):
    bomb = "const a = Array(1000).fill([]), b = Array(2000).fill(a); try { hf.call('none', b) } catch (e) { e.code }"
    with javascript.create(limits=Limits(wall_ms=20_000, cpu_ms=20_000)) as sandbox:
        begun = time.process_time()
        assert sandbox.evaluate(bomb).result.value == "HOST_FUNCTION_NOT_FOUND"
        assert time.process_time() - begun < 5
    with javascript.create(host=Host({"f": len}), limits=Limits(wall_ms=20_000, cpu_ms=20_000, mem_mb=512)) as sandbox:
        large = "try { hf.call('f', 'x'.repeat(20e6)) } catch (e) { e.code }"
        assert sandbox.evaluate(large).result.value == "REQUEST_TOO_LARGE"


def test_wrong_answers_do_not_use_up_the_output(engine, language):
    ask = "await llm('q')" if language == "javascript" else "return alc.llm('q')"
    with engine.guest(language).template().create(limits=Limits(max_output_kb=1)) as sandbox:
        sandbox.evaluate(ask)
        for _ in range(100):
            with pytest.raises(UnknownQuery):
                sandbox.resume({7: "x"})
        assert sandbox.resume({1: "fine"}).result.value == "fine"


def test_no_query_outlives_its_execution(javascript):
    with javascript.create() as sandbox:
        outcome = sandbox.evaluate("Promise.reject({get message() { llm('late'); return 'x' }}); 1")
        assert isinstance(outcome, Finished)
        asked = {event.payload["id"] for event in outcome.events if event.type == "query"}
        cancelled = {event.payload["id"] for event in outcome.events if event.type == "cancelled"}
        assert asked == cancelled
        following = sandbox.evaluate("await llm('next')")
        assert following.open == (following.queries[0].id,)


def test_a_timer_that_a_report_sets_is_waited_for(javascript):
    with javascript.create() as sandbox:
        source = "Promise.reject({get message() { setTimeout(() => {}, 50); return 'x' }}); await llm('q')"
        outcome = sandbox.step(Evaluate(source), now=1000.0)
        assert isinstance(outcome, Paused)
        assert outcome.wake_at == 1050


@pytest.mark.parametrize("source", [5, None, memoryview(b"1"), ["1"]])
def test_sources_of_the_wrong_type_are_refused(javascript, source):
    with javascript.create() as sandbox, pytest.raises(ValueRefused):
        sandbox.evaluate(source)


@pytest.mark.parametrize(
    "options",
    [{"now": float("nan")}, {"now": float("inf")}, {"now": "x"}, {"now": 10**400}, {"seed": 1.5}, {"seed": "a"}, {"zone": 5}],
    ids=str,
)
def test_senseless_options_are_refused(javascript, options):
    with javascript.create() as sandbox:
        with pytest.raises(ValueRefused):
            sandbox.step(Evaluate("1"), **options)
        with pytest.raises((ValueRefused, NotPending)):
            sandbox.step(Resume([1, 2]))
        assert sandbox.evaluate("1").result.value == 1


def test_a_reply_does_not_stay_on_the_stack(javascript):
    source = f"function f() {{}} function outer(x) {{ if (x) f({'0,' * 6000} 0); return hf.call('get').length }} outer(false)"
    with javascript.create(host=Host({"get": lambda: "hush-" * 20})) as sandbox:
        assert sandbox.evaluate(source).result.value == 100
        assert b"hush-hush-" not in sandbox.content()


def test_many_breaches_in_a_row_leave_a_usable_process(javascript):
    for _ in range(20):
        with javascript.create(limits=Limits(wall_ms=5)) as sandbox:
            assert isinstance(sandbox.evaluate("for (;;) console.log('x')"), Breached)
    with javascript.create() as sandbox:
        assert sandbox.evaluate("1").result.value == 1
