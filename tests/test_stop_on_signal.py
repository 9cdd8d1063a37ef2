"""A first signal asks to stop, a second Ctrl-C ends at once, unless a launcher passes it on twice."""

from __future__ import annotations

import os
import signal

import pytest

from crossner_core.processes import stop_on_signal


def test_stop_on_signal_the_second_ctrl_c_ends_at_once() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), stop_on_signal() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_stop_on_signal_a_launcher_may_pass_it_on() -> None:
    with stop_on_signal(launched=True) as should_stop:
        for one in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), one)
        assert should_stop()
