from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import read_bytes, write
from crossner_core.formats.base import Parsed, layout_from_dict
from crossner_core.schema import Span
from crossner_core.type_maps import TypeMap, load_type_map, parse_type_map, type_map_ids
from workbench import cli

FOUR = {"person", "location", "organisation", "misc"}
TWEETS = "Mara\tB-musicartist\nVell\tI-musicartist\nat\tO\nPier\tB-facility\nNine\tI-facility\n"
DATED = "In\tO\nMay\tB-DATE\nMara\tB-PERSON\nleft\tO\nOslo\tB-GPE\n"


def read(text: str, map_name: str, name: str = "f.conll") -> Parsed:
    return read_bytes(text.encode(), name=name, **load_type_map(map_name).options)


@pytest.mark.parametrize("name", type_map_ids())
def test_type_maps_of_the_engine_fold_into_the_four(name: str) -> None:
    found = load_type_map(name)
    assert set(found.type_names) == FOUR
    assert found.strict and found.title and "/" not in found.title


def test_type_maps_cover_the_ten_of_wnut16() -> None:
    ten = "company facility geo-loc movie musicartist other person product sportsteam tvshow"
    assert sorted(load_type_map("wnut16").types) == ten.split()


def test_type_maps_unknown_name_lists_the_known() -> None:
    with pytest.raises(InvalidConfig, match=r"Unknown type map 'wnut'; known are conll, ontonotes, wnut16, wnut17\."):
        load_type_map("wnut")


def test_type_maps_come_from_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('others = "keep"\ndrop = ["C"]\n[types]\nA = "b"\n')
    assert load_type_map(str(path)) == TypeMap("mine", "mine", {"A": "b", "C": ""}, strict=False)
    with pytest.raises(BadInput, match=r"type map .*none.toml cannot be read: No such file"):
        load_type_map(str(tmp_path / "none.toml"))
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="it is not UTF-8"):
        load_type_map(str(path))


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("types = [", "x: not TOML"),
        ('type = "a"', "x: unknown keys type; valid are title, types, drop, others"),
        ('title = "t"', r"x: it has no \[types\] table; write a line THEIRS = "),
        ("[types]\nA = 1", "x: type 'A' becomes 1, which is no name; types to leave out go in drop"),
        ('[types]\nA = " "', "x: type 'A' becomes ' ', which is no name"),
        ('drop = "A"\n[types]\nB = "b"', "x: drop must be a list of type names, not 'A'"),
        ('drop = ["B"]\n[types]\nB = "b"', r"x: B is both in \[types\] and in drop"),
        ('others = "drop"\n[types]\nB = "b"', "x: others is 'drop'; choose one of refuse, keep"),
        ('title = 3\n[types]\nB = "b"', "x: title must be a string, not 3"),
    ],
)
def test_type_maps_that_are_none_are_refused(toml: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_type_map(toml, name="x", origin="x")


def test_type_maps_may_begin_with_a_byte_order_mark() -> None:
    assert parse_type_map('\ufeff[types]\nB = "b"', name="x", origin="x").options["type_map"] == {"B": "b"}


def test_type_maps_folded_file_comes_back_as_it_was() -> None:
    parsed = read(TWEETS, "wnut16")
    assert parsed.sentences[0].spans == (Span(0, 2, "person"), Span(3, 5, "location"))
    assert write(parsed.sentences, "conll", parsed.layout) == TWEETS


def test_type_maps_left_out_types_are_no_entities_and_still_come_back() -> None:
    parsed = read(DATED, "ontonotes")
    assert parsed.sentences[0].spans == (Span(2, 3, "person"), Span(4, 5, "location"))
    # The layout travels through the store as JSON.
    layout = layout_from_dict(json.loads(json.dumps(parsed.layout.to_dict())))
    assert write(parsed.sentences, "conll", layout) == DATED
    changed = dataclasses.replace(parsed.sentences[0], spans=(Span(2, 3, "person"),))
    assert write([changed], "conll", layout) == "In\tO\nMay\tO\nMara\tB-PERSON\nleft\tO\nOslo\tO\n"


def test_type_maps_left_out_types_in_json_lines() -> None:
    gold = [{"start": 0, "end": 3, "type": "DATE"}, {"start": 4, "end": 8, "type": "GPE"}]
    line = json.dumps({"text": "May Oslo", "gold": gold}) + "\n"
    parsed = read(line, "ontonotes", "f.jsonl")
    assert parsed.sentences[0].spans == (Span(1, 2, "location"),)
    assert write(parsed.sentences, "jsonl", parsed.layout) == line


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("f.conll", "Mara\tB-person\n\nVell\tO\nOslo\tB-place\n", 4),
        ("f.jsonl", '{"text": "x"}\n{"text": "Oslo", "gold": [{"start": 0, "end": 4, "type": "place"}]}\n', 2),
    ],
)
def test_type_maps_unknown_type_is_named_with_its_map(name: str, text: str, line: int) -> None:
    with pytest.raises(
        BadInput, match=rf"{name}:{line}: entity type 'place' is not in the type map wnut16, which has person, .*add it"
    ):
        read(text, "wnut16", name)


def test_type_maps_type_outside_the_domain_is_named_as_it_is_here() -> None:
    with pytest.raises(BadInput, match="entity type 'musicartist', here 'person', is not one of location; rename it"):
        read_bytes(TWEETS.encode(), name="f.conll", types=("location",), **load_type_map("wnut16").options)


@pytest.mark.parametrize("theirs", ["PER", "person"])
def test_type_maps_new_spans_are_written_by_the_names_of_the_file(theirs: str) -> None:
    parsed = read(f"Mara\tB-{theirs}\nleft\tO\n", "conll")
    assert parsed.type_names == ("person",)
    changed = dataclasses.replace(parsed.sentences[0], spans=(Span(0, 2, "person"),))
    assert write([changed], "conll", parsed.layout) == f"Mara\tB-{theirs}\nleft\tI-{theirs}\n"


def test_type_maps_folded_neighbours_stay_two_entities_in_iob1() -> None:
    text = "Mara I-PER\nVell I-PER\nOslo B-PER\n\nRovers I-ORG\nCup I-MISC\n"
    parsed = read(text, "conll")
    assert [record.spans for record in parsed.sentences] == [
        (Span(0, 2, "person"), Span(2, 3, "person")),
        (Span(0, 1, "organisation"), Span(1, 2, "misc")),
    ]
    assert write(parsed.sentences, "conll", parsed.layout) == text


def test_type_maps_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_template: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    for name in ("CROSSNER_AS", "CROSSNER_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "tweets.conll"
    file.write_text(TWEETS)

    def call(*more: str) -> tuple[int, str]:
        code = cli.main(["import", str(file), *more])
        read = capfd.readouterr()
        return code, read.out + read.err

    assert cli.main(["user", "add", "adm", "--role", "admin"]) == 0
    capfd.readouterr()
    assert call("-d", "one", "--type-map", "wnut16") == (
        0,
        "Data set one: train 1 sentences, 2 entities; types: location, person\n",
    )
    code, out = call("-d", "two", "--type-map", "wnut16", "--map-type", "facility=misc")
    assert code == 0 and out.endswith("types: misc, person\n")
    code, out = call("-d", "three", "--type-map", "wnut17")
    assert code == 2 and "tweets.conll:1: entity type 'musicartist' is not in the type map wnut17" in out
    code, out = call("-d", "three", "--type-map", "wnut")
    assert code == 2 and out.count("\n") == 1 and "known are conll, ontonotes, wnut16, wnut17" in out
