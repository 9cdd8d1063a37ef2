"""What keys, stored content, losses and names were before, they are now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.golden import hashes, kept, losses, stored, surface, tagger


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Return all parts of a value that have none themselves, by where they are; floats that are written as hex too."""
    if isinstance(value, dict | list):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        return {place: leaf for key, part in parts for place, leaf in leaves(part, f"{path}/{key}").items()}
    return {path: float.fromhex(value) if isinstance(value, str) and value.startswith(("0x", "-0x")) else value}


def nearly(value: Any, golden: Any) -> None:
    """Compare floats to a ten-thousandth, and all else for equality."""
    found, kept_ = leaves(value), leaves(golden)
    floats = {path: leaf for path, leaf in kept_.items() if isinstance(leaf, float)}
    assert {path: found.pop(path, None) for path in floats} == pytest.approx(floats, rel=1e-4)
    assert found == {path: leaf for path, leaf in kept_.items() if path not in floats}


def same(value: Any, golden: dict[str, Any]) -> None:
    """Compare part by part, so that what differs is named."""
    found = kept.plain(value)
    for name in {**golden, **found}:
        assert found.get(name) == golden.get(name), name


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
            nearly(one["losses"], golden[str(count)])


def test_hashes(tmp_path: Path) -> None:
    same(hashes.made(tmp_path), kept.read("hashes"))


def test_payloads_of_jobs(tmp_path: Path) -> None:
    assert kept.plain(stored.payloads(tmp_path)) == kept.read("payloads")


def test_old_store(tmp_path: Path) -> None:
    """It opens, every row stays in every column that there was, and use cases show it as they did."""
    store, old = stored.restore(tmp_path / "home"), stored.old_rows()
    found = stored.rows(store)
    for name, table in old.items():
        if name != "alembic_version":
            assert [{column: row[column] for column in table[0]} for row in found[name]] == table, name
    for kept_, again in stored.read_back(old):
        assert again == kept_
    same(stored.views(store), kept.read("views"))
    whole = stored.exported(store)
    assert stored.without_times(whole) == stored.without_times(stored.old_archive(imported=False))
    store.close()


def test_old_archive(tmp_path: Path) -> None:
    """It is imported, and goes out again with the same content."""
    again = stored.without_times(stored.exported_anew(tmp_path))
    assert again == stored.without_times(stored.old_archive(imported=True))


def test_old_run(tmp_path: Path) -> None:
    """Its taggers are loaded and say what they said; what was stopped is resumed to the same end."""
    nearly(tagger.read(tmp_path), kept.read("old_run"))


@pytest.mark.parametrize("part", ["commands", "engine", "pages", "options", "settings"])
def test_surface(part: str) -> None:
    """Commands, flags, help, page addresses, options and their defaults are as they were."""
    same(surface.made()[part], kept.read("surface")[part])
