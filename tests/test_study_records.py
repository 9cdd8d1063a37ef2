"""Results by key: files while studies run, lines of one file where they are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crossner_core.errors import BadInput
from crossner_core.experiments.records import CELLS, SIMULATIONS, Records, pack

STUDIES = Path(__file__).parents[1] / "docs" / "studies"


def records(out: Path) -> Records[dict[str, Any]]:
    return Records(out, CELLS, dict, dict)


def test_records_are_packed_sorted_and_each_once_whatever_the_order(tmp_path: Path) -> None:
    written = {"b": {"f1": 2.0}, "a": {"f1": 1.0, "note": "ä"}}
    for out, keys in (("one", "ba"), ("other", "ab")):
        kept = records(tmp_path / out)
        for key in keys:
            kept.put(key, written[key])
            assert pack(tmp_path / out)[CELLS] == len(kept.keys())
        assert kept.keys() == ("a", "b") and not list((tmp_path / out / CELLS).iterdir())
        assert kept.get("a") == {**written["a"], "key": "a"} and kept.get("c") is None
    one, other = ((tmp_path / out / "cells.jsonl").read_bytes() for out in ("one", "other"))
    assert one == other and one.count(b"\n") == 2


def test_records_are_read_while_another_process_packs_them(tmp_path: Path) -> None:
    reader, writer = records(tmp_path), records(tmp_path)
    writer.put("a", {"f1": 1.0})
    assert pack(tmp_path, begin=False) == {}  # a folder is packed when somebody has begun to
    pack(tmp_path)
    assert reader.keys() == ("a",)
    writer.put("b", {"f1": 2.0})
    pack(tmp_path, begin=False)
    assert reader.get("b") == {"f1": 2.0, "key": "b"}
    writer.put("a", {"f1": 3.0})  # made again: it takes the place of the line
    assert reader.get("a") == {"f1": 3.0}
    pack(tmp_path)
    assert reader.get("a") == {"f1": 3.0, "key": "a"} and reader.keys() == ("a", "b")


def test_records_killed_between_writing_and_removing_are_packed_again(tmp_path: Path) -> None:
    kept = records(tmp_path)
    kept.put("a", {"f1": 1.0})
    file = (tmp_path / CELLS / "a.json").read_bytes()
    pack(tmp_path)
    (tmp_path / CELLS / "a.json").write_bytes(file)
    assert pack(tmp_path) == {CELLS: 1} and not (tmp_path / CELLS / "a.json").exists()


def test_records_that_are_damaged_say_where(tmp_path: Path) -> None:
    (tmp_path / CELLS).mkdir()
    (tmp_path / CELLS / "a.json").write_text("{")
    for read in (lambda: records(tmp_path).get("a"), lambda: pack(tmp_path)):
        with pytest.raises(BadInput, match=r"a\.json is damaged.*Delete it"):
            read()
    (tmp_path / "cells.jsonl").write_text('{"key": "b"}\n{"key"\n')
    with pytest.raises(BadInput, match=r"cells\.jsonl is damaged"):
        records(tmp_path).get("b")


@pytest.mark.parametrize(("out", "name"), [(STUDIES, CELLS), (STUDIES, SIMULATIONS), (STUDIES / "anew", CELLS)])
def test_records_of_the_page_of_results_are_packed_as_they_would_be_now(out: Path, name: str) -> None:
    lines = (out / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["key"] for row in rows] == sorted({row["key"] for row in rows})
    assert lines == [json.dumps(row, sort_keys=True, separators=(",", ":")) for row in rows]
