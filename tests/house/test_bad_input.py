"""Broken files, from the page's functions and the command line: refused as a whole or reported line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from crossner_core.command_line import json_object, read_values
from crossner_core.domains import parse_domain
from crossner_core.errors import BadInput, InvalidConfig, InvalidDomain, WorkbenchError
from crossner_core.type_maps import parse_type_map
from db.engine import Store
from db.tables import Base
from tests.support.builders import make_campaign
from workbench import cli
from workbench.accounts.actors import Actor
from workbench.data import archive, datasets, exchange

People = dict[str, Actor]

GOOD = "Ada\tB-person\nsang\tO\n\n"
AFTER = "\nLow\tB-album\nTide\tI-album\n"


def _json(**fields: object) -> str:
    return json.dumps({"text": "Ada sang Low Tide", **fields}, ensure_ascii=False) + "\n"


def _gold(start: int, end: int, kind: str, surface: str) -> dict[str, object]:
    return {"start": start, "end": end, "type": kind, "surface": surface}


# name → (file name, content, line that is named, words of the reason, good sentences beside the bad one)
BROKEN: dict[str, tuple[str, bytes, int, str, int]] = {
    "columns": ("a.conll", (GOOD + "Bo\tX\tB-person\textra\n" + AFTER).encode(), 4, "column", 2),
    "tag": ("a.conll", (GOOD + "Bo\tQ-person\n" + AFTER).encode(), 4, "tag", 2),
    "sequence": ("a.conll", (GOOD + "Bo\tB-person\nin\tI-band\n" + AFTER).encode(), 5, "I-band", 2),
    "type": ("a.conll", (GOOD + "Bo\tB-wizard\n" + AFTER).encode(), 4, "musicalartist", 2),
    "utf8": ("a.conll", GOOD.encode() + b"B\xff\tO\n" + AFTER.encode(), 4, "UTF-8", 2),
    "long": ("a.txt", b"Ada sang .\n" + b"la " * 1_000_000 + b"\nBo sang .\n", 2, "3,000,000 characters", 2),
    "json": ("a.jsonl", (_json() + '{"text": "x"\n' + _json(id="b")).encode(), 2, "JSON", 2),
    "offsets": ("a.jsonl", (_json() + _json(gold=[_gold(9, 99, "album", "Low Tide")])).encode(), 2, "99", 1),
    "surface": ("a.jsonl", (_json() + _json(gold=[_gold(0, 3, "person", "Bob")])).encode(), 2, "Bob", 1),
    "half a token": ("a.jsonl", (_json() + _json(gold=[_gold(0, 2, "person", "Ad")])).encode(), 2, "token", 1),
    "type in json": ("a.jsonl", (_json() + _json(gold=[_gold(0, 3, "wizard", "Ada")])).encode(), 2, "musicalartist", 1),
    "overlap": (
        "a.jsonl",
        (_json() + _json(gold=[_gold(0, 8, "band", "Ada sang"), _gold(4, 8, "song", "sang")])).encode(),
        2,
        "overlap",
        1,
    ),
    "null in json": ("a.jsonl", (_json() + _json(text="Bo \0 sang")).encode(), 2, "NUL", 1),
    "beyond floats": ("a.jsonl", _json().encode() + b'{"text": "Bo sang", "year": 1e999}\n', 2, "1e999", 1),
    "null byte": ("a.txt", b"Ada sang .\nBo \x00 sang .\n", 2, "", 1),
}
EMPTY = {"nothing": b"", "spaces": b"  \n\n \t\n", "only a mark": b"\xef\xbb\xbf"}


def _rows(store: Store) -> dict[str, int]:
    """Count every row of the store."""
    with store.read() as session:
        return {
            table.name: session.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for table in Base.metadata.sorted_tables
        }


@pytest.mark.parametrize("case", BROKEN)
def test_bad_input_is_refused_as_a_whole(store: Store, people: People, campaign: int, case: str) -> None:
    name, data, line, reason, _ = BROKEN[case]
    before = _rows(store)
    with pytest.raises(BadInput) as caught:
        exchange.import_files(store, people["res"], campaign, [(name, data)])
    told = "\n".join((str(caught.value), *caught.value.problems))
    assert f"{name}:{line}" in told and reason.lower() in told.lower(), told
    assert len(told) < 5_000
    assert _rows(store) == before


@pytest.mark.parametrize("case", BROKEN)
def test_bad_input_is_reported_line_by_line(store: Store, people: People, campaign: int, case: str) -> None:
    name, data, line, reason, good = BROKEN[case]
    before = _rows(store)["sentence"]
    done = exchange.import_files(store, people["res"], campaign, [(name, data)], skip_bad=True)
    assert any(f"{name}:{line}" in one and reason.lower() in one.lower() for one in done.problems), done.problems
    assert done.added + done.duplicates == good
    assert _rows(store)["sentence"] == before + done.added


@pytest.mark.parametrize("case", EMPTY)
@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.jsonl"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_bad_input_empty_file(
    store: Store, people: People, campaign: int, case: str, name: str, skip_bad: bool
) -> None:
    before = _rows(store)
    with pytest.raises(BadInput, match=name):
        exchange.import_files(store, people["res"], campaign, [(name, EMPTY[case])], skip_bad=skip_bad)
    assert _rows(store) == before


@pytest.mark.parametrize("case", [case for case in BROKEN if BROKEN[case][0] == "a.conll"])
def test_bad_input_as_a_data_set_keeps_nothing(store: Store, people: People, case: str) -> None:
    _, data, line, reason, _ = BROKEN[case]
    before = _rows(store)
    splits = {"train": ("train.conll", (GOOD + AFTER).encode()), "test": ("test.conll", data)}
    with pytest.raises(BadInput) as caught:
        datasets.import_dataset(store, people["res"], name="own", splits=splits, domain="music")
    told = "\n".join((str(caught.value), *caught.value.problems))
    assert f"test.conll:{line}" in told and reason.lower() in told.lower(), told
    assert _rows(store) == before


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 not a zip", b"[]", b"\x00" * 100])
def test_bad_input_as_a_campaign(store: Store, people: People, data: bytes) -> None:
    before = _rows(store)
    with pytest.raises(WorkbenchError):
        archive.import_campaign(store, people["adm"], data, name="again")
    assert _rows(store) == before


@pytest.fixture
def run(
    store: Store, tmp_path: Path, people: People, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a command on the store; return its exit code and all it said."""
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    monkeypatch.setenv("CROSSNER_DATABASE_URL", str(store.url))
    monkeypatch.delenv("CROSSNER_AS", raising=False)

    def call(*arguments: str) -> tuple[int, str]:
        capfd.readouterr()
        code = cli.main(list(arguments))
        return code, "".join(capfd.readouterr())

    return call


@pytest.mark.slow
def test_bad_input_on_the_command_line(
    store: Store, people: People, tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    make_campaign(store, people, name="Songs")
    for case, (name, data, line, reason, good) in BROKEN.items():
        file = tmp_path / name
        file.write_bytes(data)
        before = _rows(store)
        code, said = run("import", str(file), "--campaign", "Songs")
        assert code == 2 and f"{name}:{line}" in said and reason.lower() in said.lower(), (case, said)
        assert "Traceback" not in said and _rows(store) == before, case
        code, said = run("import", str(file), "--campaign", "Songs", "--skip-bad")
        assert code == 0 and f"{name}:{line}" in said, (case, said)
        assert _rows(store)["sentence"] <= before["sentence"] + good


def test_bad_input_one_of_two_files_keeps_both_out(
    store: Store, people: People, tmp_path: Path, run: Callable[..., tuple[int, str]]
) -> None:
    make_campaign(store, people, name="Songs")
    good, bad = tmp_path / "good.conll", tmp_path / "bad.conll"
    good.write_text(GOOD)
    bad.write_bytes(BROKEN["tag"][1])
    before = _rows(store)
    code, said = run("import", str(good), str(bad), "--campaign", "Songs")
    assert code == 2 and "bad.conll:4" in said
    assert _rows(store) == before


@pytest.mark.parametrize("path", ["absent.txt", "."])
def test_bad_input_that_is_no_file(
    store: Store, people: People, tmp_path: Path, run: Callable[..., tuple[int, str]], path: str
) -> None:
    make_campaign(store, people, name="Songs")
    code, said = run("import", str(tmp_path / path), "--campaign", "Songs")
    assert code == 2 and "Traceback" not in said and said.count("\n") <= 2, said


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        ('key = ["a"]', "key must be a string"),
        ("color = {a = 1}", "color .* is not a whole number"),
        ("color = " + "9" * 5_000, "not TOML: a number has too many digits"),
        ("key = " + "[" * 3_000 + "]" * 3_000, "not TOML: it is nested too deep"),
    ],
)
def test_a_domain_with_values_that_cannot_be_is_refused_in_words(extra: str, says: str) -> None:
    text = f'name = "x"\n[[types]]\nname = "a"\n{extra}\n'
    with pytest.raises(InvalidDomain, match=rf"^mine\.toml: .*{says}"):
        parse_domain(text, origin="mine.toml")


@pytest.mark.parametrize("text", ["a = " + "[" * 3_000 + "]" * 3_000, "a = " + "9" * 5_000])
def test_type_maps_and_recipes_that_are_too_deep_or_too_long_are_refused_in_words(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"^mine\.toml: not TOML: (it is nested too deep|a number has too many digits)"):
        parse_type_map(text, name="mine", origin="mine.toml")
    as_json = '{"a": ' + text.removeprefix("a = ") * 40 + "}"
    for name, words in (("recipe.toml", text), ("recipe.json", as_json)):
        (tmp_path / name).write_text(words)
        with pytest.raises(InvalidConfig, match=r"is not (TOML|JSON): "):
            read_values(str(tmp_path / name))
    with pytest.raises(InvalidConfig, match="is not JSON: "):
        json_object(as_json)
