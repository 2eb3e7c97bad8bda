"""The clock of the guests: it ticks while they run, and leaves the process as it was."""

import sys
import time

from holdfast.sandbox import Engine


def wait_until(true):
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    assert true()


def test_the_switch_interval_is_shorter_while_guests_run():
    wait_until(lambda: sys.getswitchinterval() > 0.004)  # engines of other tests have come to rest
    usual = sys.getswitchinterval()
    with Engine() as engine:
        template = engine.guest("lua").template()
        wait_until(lambda: sys.getswitchinterval() == usual)
        with template.create() as sandbox:
            sandbox.evaluate("1")
            assert sys.getswitchinterval() < usual
            wait_until(lambda: sys.getswitchinterval() == usual)
            sandbox.evaluate("1")
    assert sys.getswitchinterval() == usual


def test_a_setting_that_was_made_meanwhile_is_kept():
    wait_until(lambda: sys.getswitchinterval() > 0.004)
    usual = sys.getswitchinterval()
    try:
        with Engine() as engine:
            engine.guest("lua").template().create().evaluate("1")
            sys.setswitchinterval(0.004)
        assert sys.getswitchinterval() == 0.004
    finally:
        sys.setswitchinterval(usual)
