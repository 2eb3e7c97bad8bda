"""Freezing and thawing, in both guests and on every way of running them."""

import os
import random
import struct
import subprocess
import sys
import uuid

import pytest

from holdfast.domain import Limits
from holdfast.sandbox import (
    Evaluate,
    Finished,
    ImageDamaged,
    ImageForeign,
    ImageTooLarge,
    ImageUnsupported,
    Label,
    Paused,
    Source,
    compose,
    read_label,
)

from .programs import PROGRAMS

KEY = b"a key of 32 bytes for the tests."
NOW = 1_700_000_000_000.0
PLENTY = Limits(wall_ms=20_000, cpu_ms=20_000, mem_mb=512)


@pytest.fixture
def paused(template, language):
    """A sandbox that has asked its first of three questions."""
    with template.create(seed=7, limits=PLENTY) as sandbox:
        assert isinstance(sandbox.step(Evaluate(PROGRAMS["ask thrice"][language]), now=NOW), Paused)
        yield sandbox


def value(outcome):
    assert isinstance(outcome, Finished), outcome
    return outcome.result.value


def finish(sandbox, *answers, first=1):
    for number, answer in enumerate(answers, first):
        outcome = sandbox.resume({number: answer}, now=NOW)
    return value(outcome)


@pytest.mark.parametrize("kind", ["whole", "template"])
def test_an_image_goes_on_where_it_stopped(paused, template, kind):
    sealed = paused.freeze().seal(KEY, template if kind == "template" else None)
    with template.thaw(template.open(sealed, KEY)) as thawed:
        assert finish(thawed, "a", "b", "c") == "abc"


def test_an_image_can_be_thawed_in_another_process(paused, template, language, tmp_path):
    file = tmp_path / "image"
    file.write_bytes(paused.freeze().seal(KEY, template))
    script = f"""
from pathlib import Path
from holdfast.sandbox import Engine
with Engine() as engine:
    template = engine.guest({language!r}).template()
    sandbox = template.thaw(template.open(Path({str(file)!r}).read_bytes(), {KEY!r}))
    for number, answer in enumerate("abc", 1):
        outcome = sandbox.resume({{number: answer}})
    print(outcome.result.value)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "abc"


def test_freezing_changes_nothing(paused):
    paused.freeze()
    assert finish(paused, "a", "b", "c") == "abc"


def test_one_image_has_many_futures(paused, template):
    image = paused.freeze()
    with template.fork(image) as left, template.fork(image) as right:
        assert finish(left, "l", "l", "l") == "lll"
        assert finish(right, "r", "r", "r") == "rrr"
    assert finish(paused, "o", "o", "o") == "ooo"


def test_a_delta_is_small_and_needs_the_image_before_it(paused, template):
    first = paused.freeze(Label(uuid.UUID(int=5), 1))
    paused.resume({1: "a"}, now=NOW)
    second = paused.freeze(Label(uuid.UUID(int=5), 2))
    delta = second.seal(KEY, first)
    assert len(delta) < 6000
    kept = template.open(first.seal(KEY, template), KEY)
    with template.thaw(template.open(delta, KEY, kept)) as thawed:
        assert finish(thawed, "b", "c", first=2) == "abc"
    with pytest.raises(ImageForeign):
        template.open(delta, KEY)
    with pytest.raises(ImageForeign):
        template.open(delta, KEY, second)
    assert read_label(delta, KEY) == (second.label, first.label)


def test_deltas_compose_without_thawing(paused, template):
    images = [paused.freeze(Label(number=0))]
    for number, answer in enumerate("ab", 1):
        paused.resume({number: answer}, now=NOW)
        images.append(paused.freeze(Label(number=number)))
    one, two = images[1].seal(KEY, images[0]), images[2].seal(KEY, images[1])
    opened = template.open(compose(one, two, KEY), KEY, images[0])
    assert opened.pages == images[2].pages
    assert opened.label == images[2].label
    over_template = compose(images[0].seal(KEY, template), one, KEY)
    assert template.open(over_template, KEY).pages == images[1].pages
    with pytest.raises(ImageForeign):
        compose(two, one, KEY)


def test_a_delta_against_any_image_before_it(template, language):
    """Which pages to look at is remembered from image to image; some are forgotten, and some come from a store."""
    source = {
        "javascript": "const all = []; for (let n = 0; ; n++) { all.push(await llm('x'), 'y'.repeat(n * 500)) }",
        "lua": "local all = {} for n = 0, 1000 do all[#all + 1] = alc.llm('x') .. ('y'):rep(n * 500) end",
    }[language]
    dice = random.Random(5)
    with template.create(seed=7, limits=PLENTY) as sandbox:
        outcome = sandbox.step(Evaluate(source), now=NOW)
        images = {0: sandbox.freeze()}
        for number in range(1, 12):
            outcome = sandbox.resume({outcome.queries[0].id: "an answer"}, now=NOW)
            image = sandbox.freeze()
            for _ in range(3):
                before = images[dice.choice(list(images))]
                opened = template.open(image.seal(KEY, before), KEY, before)
                assert opened.pages == image.pages
            images[number] = opened if dice.random() < 0.5 else image
            if dice.random() < 0.4:
                del images[dice.choice(list(images)[:-1])]


def test_any_damage_is_noticed(paused, template):
    sealed = paused.freeze().seal(KEY, template)
    for at in {*range(0, len(sealed), max(1, len(sealed) // 200)), len(sealed) - 1}:
        altered = bytearray(sealed)
        altered[at] ^= 1
        with pytest.raises((ImageDamaged, ImageUnsupported)):
            template.open(bytes(altered), KEY)
    for length in {0, 1, 50, 100, len(sealed) // 2, len(sealed) - 1}:
        with pytest.raises(ImageDamaged):
            template.open(sealed[:length], KEY)
    with pytest.raises(ImageDamaged):
        template.open(sealed + b"\0", KEY)
    with pytest.raises(ImageDamaged):
        template.open(sealed, KEY[::-1])
    with pytest.raises(ImageDamaged):
        template.open(os.urandom(500), KEY)


def test_an_image_of_another_version_is_named(paused, template):
    sealed = bytearray(paused.freeze().seal(KEY, template))
    sealed[4] = 200
    with pytest.raises(ImageUnsupported, match="version 200"):
        template.open(bytes(sealed), KEY)


def test_images_of_other_guests_and_templates_are_refused(any_engine, plain, paused, template, language):
    image = paused.freeze()
    other = plain(any_engine, "lua" if language == "javascript" else "javascript")
    for sealed in (image.seal(KEY), image.seal(KEY, template)):
        with pytest.raises(ImageForeign):
            other.open(sealed, KEY)
    changed = template.guest.template(startup=[Source("x", PROGRAMS["set global"][language])])
    with pytest.raises(ImageForeign):
        changed.open(image.seal(KEY, template), KEY)
    with pytest.raises(ImageForeign):
        changed.thaw(image)
    assert finish(changed.thaw(changed.open(image.seal(KEY), KEY)), "a", "b", "c") == "abc"


def test_images_that_are_too_large_are_refused(template, language):
    with template.create(limits=PLENTY) as sandbox:
        value(sandbox.evaluate(PROGRAMS["hold 40 MB and drop it"][language]))
        image = sandbox.freeze()
    with pytest.raises(ImageTooLarge, match="40000000"):
        template.open(image.seal(KEY), KEY, largest=40_000_000)
    with pytest.raises(ImageTooLarge, match="40 MB are allowed"):
        template.thaw(image, limits=Limits(mem_mb=40))


def test_a_payload_that_unpacks_to_more_than_it_says_is_refused(paused, template):
    from holdfast.sandbox import image as images

    sealed = paused.freeze().seal(KEY, template)
    body = bytearray(sealed[:-16])
    struct.pack_into("<I", body, images._HEAD.size - 4, 10)
    with pytest.raises(ImageDamaged):
        template.open(bytes(body) + images._mac(bytes(body), KEY), KEY)


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 65])
def test_keys_of_the_wrong_size_are_refused(paused, key):
    with pytest.raises(ValueError, match="16 to 64"):
        paused.freeze().seal(key)


def test_a_secret_that_was_dropped_is_gone(template, language):
    with template.create(limits=PLENTY) as sandbox:
        value(sandbox.evaluate(PROGRAMS["secret"][language]))
        content = sandbox.content()
        image = sandbox.freeze()
    assert b"secret-xxxx" not in content
    assert not any(b"secret-xxxx" in page for page in image.pages.values())


def test_answers_and_sources_do_not_stay_in_buffers(template, language):
    with template.create(limits=PLENTY) as sandbox:
        sandbox.evaluate(PROGRAMS["swallow everything"][language])
        sandbox.resume({1: "hush-hush-" * 3000})
        sandbox.evaluate("collectgarbage()" if language == "lua" else "var r = null; 0")
        assert b"hush-hush-hush" not in sandbox.content()


def test_memory_that_was_dropped_takes_no_room(template, language):
    with template.create(limits=PLENTY) as sandbox:
        value(sandbox.evaluate(PROGRAMS["hold 40 MB and drop it"][language]))
        image = sandbox.freeze()
        assert image.size > 40 << 20
        sealed = image.seal(KEY, template)
        assert len(sealed) < 1 << 20
        assert len(image.seal(KEY)) < 2 << 20
    with template.thaw(template.open(sealed, KEY), limits=PLENTY) as thawed:
        assert value(thawed.evaluate(PROGRAMS["add"][language])) == 42


def test_a_large_heap_freezes_again_and_again(template, language):
    grow = {
        "javascript": "globalThis.heap ??= []; for (let i = 0; i < 5; i++) heap.push(new Uint8Array(1 << 20).fill(i + 1)); heap.length",
        "lua": "heap = heap or {} for i = 1, 5 do heap[#heap + 1] = ('x'):rep(1 << 20) .. #heap end return #heap",
    }[language]
    check = {
        "javascript": "heap.reduce((sum, a) => sum + a[0] + a[a.length - 1], 0)",
        "lua": "local n = 0 for i, s in ipairs(heap) do n = n + #s end return n",
    }[language]
    with template.create(limits=PLENTY) as sandbox:
        for _ in range(3):
            value(sandbox.evaluate(grow))
            image = sandbox.freeze()
            expected = value(sandbox.evaluate(check))
            with template.thaw(template.open(image.seal(KEY, template), KEY), limits=PLENTY) as thawed:
                assert value(thawed.evaluate(check)) == expected
                assert thawed.freeze().size == image.size


def test_the_same_input_gives_the_same_bytes_thawed_at_every_pause_or_never(template, language):
    def run(thaw):
        sandbox = template.create(seed=7, limits=PLENTY)
        outcome = sandbox.step(Evaluate(PROGRAMS["grow and ask"][language]), now=NOW)
        while isinstance(outcome, Paused):
            if thaw:
                sealed = sandbox.freeze().seal(KEY, template)
                sandbox.close()
                sandbox = template.thaw(template.open(sealed, KEY), limits=PLENTY)
            (query,) = outcome.queries
            outcome = sandbox.resume({query.id: f"answer {query.id}"}, now=NOW + query.id)
        content = sandbox.content()
        sandbox.close()
        return value(outcome), content

    assert run(thaw=True) == run(thaw=False)
