"""Memory that is freed is kept for the next step, and given back when the work is done."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

_TRY = """
import json, resource
from crossner_core.memory import give_back_freed, keep_freed
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        block = b"x" * (50 << 20)
        del block
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
bare, told = faults(), keep_freed()
faults()
found = {"told": told, "bare": bare, "kept": faults(), "held": resident()}
give_back_freed()
print(json.dumps({**found, "back": resident()}))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another allocator, which keeps what it likes")
def test_freed_memory_is_kept_without_new_pages_until_it_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", _TRY], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["told"] is True
    assert found["bare"] > 200 > found["kept"]  # ten blocks of 25 huge pages, or of 12,800 small ones
    assert found["held"] - found["back"] > 40 << 20


def test_other_systems_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from crossner_core import memory

    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory.keep_freed() is False
    memory.give_back_freed()
