"""Sandboxes come and go: nothing stays behind."""

import gc
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from holdfast.sandbox import Engine, Finished

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="memory is read from /proc, which only Linux has"
)


def resident_kb():
    return int(re.search(r"VmRSS:\s*(\d+)", Path("/proc/self/status").read_text())[1])


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_thousands_of_sandboxes_leave_memory_flat(engine, plain, language):
    template = plain(engine, language)

    def make_and_drop(count):
        for number in range(count):
            sandbox = template.create()
            assert sandbox.evaluate("1 + 1").result.value == 2
            if number % 2:
                sandbox.close()  # the other half is dropped, and closed by that

    make_and_drop(500)
    gc.collect()
    before, open_before = resident_kb(), descriptors()
    make_and_drop(3_000)
    gc.collect()
    assert resident_kb() - before < 1_500
    assert descriptors() == open_before


def test_a_thousand_sandboxes_live_at_once(engine, language):
    template = engine.guest(language).template()
    sandboxes = [template.create() for _ in range(1000)]
    for number, sandbox in enumerate(sandboxes):
        assert isinstance(sandbox.evaluate(f"x = {number}"), Finished)
    assert [sandbox.evaluate("x").result.value for sandbox in sandboxes] == list(range(1000))
    for sandbox in sandboxes:
        sandbox.close()


def test_a_long_session_does_not_grow(engine, language):
    with engine.guest(language).template().create() as sandbox:
        sizes = []
        for _ in range(5):
            for _ in range(400):
                sandbox.evaluate("[1, 2, 3].map(x => ({x}))" if language == "javascript" else "{1, 2, {3}}")
            sizes.append(len(sandbox.content()))
        assert len(set(sizes[1:])) == 1


def test_threads_make_and_run_sandboxes_at_the_same_time(engine, language):
    template = engine.guest(language).template()
    wrong = []

    def work(number):
        for turn in range(50):
            with template.create() as sandbox:
                if sandbox.evaluate(f"{number} * 1000 + {turn}").result.value != number * 1000 + turn:
                    wrong.append((number, turn))
                sandbox.freeze()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_engines_come_and_go_while_they_tick(language):
    for _ in range(10):
        with Engine() as engine, engine.guest(language).template().create() as sandbox:
            sandbox.evaluate("1")


FORK = """
import os, signal
from holdfast.domain import Limits
from holdfast.sandbox import Breached, Engine

engine = Engine()
template = engine.guest("lua").template()
template.create().evaluate("1")  # the ticker runs in the parent
child = os.fork()
signal.alarm(20)
with template.create(limits=Limits(wall_ms=100)) as sandbox:
    sandbox.evaluate("x = 1")
    assert sandbox.freeze().pages
    assert isinstance(sandbox.evaluate("while true do end"), Breached)
if child:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


def test_a_child_process_has_limits_too():
    """Neither timers nor page maps are inherited by fork: the child must get its own."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)
