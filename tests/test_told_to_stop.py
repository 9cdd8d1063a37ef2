"""Being told to stop: once it is noted, twice it ends, unless a launcher says it twice."""

from __future__ import annotations

import os
import signal

import pytest

from crossner_core.processes import told_to_stop


def test_told_to_stop_the_second_ctrl_c_ends_at_once() -> None:
    before = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(KeyboardInterrupt), told_to_stop() as told:
        assert not told()
        os.kill(os.getpid(), signal.SIGINT)
        assert told()
        os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == before


def test_told_to_stop_a_launcher_may_pass_it_on() -> None:
    with told_to_stop(launched=True) as told:
        for one in (signal.SIGINT, signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), one)
        assert told()
