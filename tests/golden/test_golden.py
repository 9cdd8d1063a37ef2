"""What keys, stored content, losses and names were before, they are now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden import kept, losses


def numbers(value: Any) -> Any:
    """Return a value with floats written as hex in place of their words."""
    if isinstance(value, dict):
        return {name: numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [numbers(part) for part in value]
    return float.fromhex(value) if isinstance(value, str) and value.startswith(("0x", "-0x")) else value


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Return all leaves by their path."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        return {name: value}
    return {path: leaf for key, part in parts for path, leaf in flat(part, f"{name}/{key}").items()}


@pytest.mark.slow
def test_losses(tmp_path: Path) -> None:
    """To the bit where the machine computes as the one did that wrote them, else nearly."""
    golden, outs = kept.read("losses"), {count: tmp_path / f"{count}.json" for count in (1, 2)}
    started = {count: losses.start(out, count) for count, out in outs.items()}
    measured = {count: losses.finish(process, outs[count]) for count, process in started.items()}
    for count, one in measured.items():
        if one["machine"] == golden["machine"]:
            assert one["losses"] == golden[str(count)]
        else:
            assert flat(numbers(one["losses"])) == pytest.approx(flat(numbers(golden[str(count)])), rel=1e-4)
