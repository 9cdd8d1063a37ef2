"""The layouts that corpora come in: the real sets read whole against a count in plain Python, and small files."""

from __future__ import annotations

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from crossner_core.errors import BadInput
from crossner_core.formats import open_file, read_bytes, write
from crossner_core.formats.conll import ConllLayout
from crossner_core.schema import Span
from crossner_core.tags import tags_from_spans

# Scheme, columns, newline and entity types; then each file's sentences and entities (politics to conll2003: as the
# notes on the release have them).
SETS = {
    "politics": ("IOB2", 2, "\n", 9, {"train": (200, 1304), "dev": (541, 3482), "test": (651, 4209)}),
    "music": ("IOB2", 2, "\n", 13, {"train": (100, 648), "dev": (380, 2679), "test": (465, 3336)}),
    "ai": ("IOB2", 2, "\n", 14, {"train": (100, 532), "dev": (350, 1549), "test": (431, 1809)}),
    "conll2003": ("IOB2", 2, "\n", 4, {"train": (14041, 23429), "dev": (3250, 5938), "test": (3453, 5628)}),
    "restaurant": ("IOB2", 2, "\r\n", 8, {"train": (7660, 15363), "test": (1521, 3151)}),
    "wikigold": ("IOB1", 2, "\n", 4, {"all": (1696, 3558)}),
    "sec-filings": ("IOB1", 4, "\n", 4, {"train": (1164, 1168), "test": (303, 318)}),
    "bionlp13pc": ("IOB2", 2, "\n", 4, {"train": (2499, 7853), "devel": (857, 2734), "test": (1695, 5306)}),
    "wikineural": ("IOB2", 3, "\n", 4, {"silver-1": (11590, 19621), "silver-2": (11597, 19675)}),
}


def count(data: bytes) -> tuple[int, Counter[str], list[str]]:
    """Count sentences and, by type, entities of a column file; and return the last sentence's words."""
    sentences, entities, words, last = 0, Counter[str](), list[str](), list[str]()
    before = "O"
    for line in [*data.decode().replace("\r\n", "\n").split("\n"), ""]:
        if not line.strip() or line.startswith("-DOCSTART-"):
            if words:
                sentences, last, words = sentences + 1, words, []
            before = "O"
            continue
        columns = line.split("\t") if "\t" in line else line.split(" ")
        tag = columns[-1]
        words.append(columns[1] if len(columns) == 3 else columns[0])
        if tag != "O" and (tag[0] == "B" or before == "O" or before[2:] != tag[2:]):
            entities[tag[2:]] += 1
        before = tag
    return sentences, entities, last


@pytest.mark.parametrize("name", SETS)
def test_real_set_is_read_whole_and_comes_back(shared: Path, name: str) -> None:
    scheme, columns, newline, types, files = SETS[name]
    found: set[str] = set()
    paths = sorted((shared / "data" / "ner" / name).iterdir())
    assert {path.stem for path in paths} == set(files)
    for path in paths:
        data = path.read_bytes()
        parsed = open_file(path, lenient=name == "wikineural")
        sentences, entities, last = count(data)
        assert (sentences, entities.total()) == files[path.stem]
        assert len(parsed.sentences) == sentences and parsed.problems == ()
        assert Counter(span.type for record in parsed.sentences for span in record.spans or ()) == entities
        assert parsed.sentences[-1].sentence.words == tuple(last)
        layout = parsed.layout
        assert isinstance(layout, ConllLayout)
        assert (layout.scheme, layout.width, layout.newline) == (scheme, columns, newline)
        assert write(parsed.sentences, "conll", layout).encode() == data
        found |= set(entities)
    assert len(found) == types


def test_real_wikineural_is_refused_with_the_lines_of_its_stray_tags(shared: Path) -> None:
    path = shared / "data" / "ner" / "wikineural" / "silver-1.conllu"
    beginning = b"\n".join(path.read_bytes().split(b"\n")[:6000])
    with pytest.raises(BadInput, match=r"silver-1.conllu:1197: tag 'I-MISC' cannot follow 'O'") as caught:
        read_bytes(beginning, name="silver-1.conllu")
    assert "--lenient" in str(caught.value)


WORDS = [["Ada", "Brook", "Milo", "sang"], ["in"], ["Porto", "Rovers", "left", "New", "Haven", "Rovers"]]
SPANS = [[Span(0, 2, "per"), Span(2, 3, "per")], [], [Span(0, 1, "loc"), Span(1, 2, "org"), Span(3, 6, "org")]]


def columns(scheme: str, layout: str, newline: str, docstart: bool, end: str) -> str:
    """Write the own sentences in a layout of columns."""
    blocks = []
    for words, spans in zip(WORDS, SPANS, strict=True):
        rows = {
            "tab": [[word, tag] for word, tag in zip(words, tags_from_spans(spans, len(words), scheme), strict=True)],
        }
        tags = [row[1] for row in rows["tab"]]
        rows["space"] = rows["tab"]
        rows["four"] = [[word, "NN", "-", tag] for word, tag in zip(words, tags, strict=True)]
        rows["index"] = [[str(at), word, tag] for at, (word, tag) in enumerate(zip(words, tags, strict=True))]
        separator = " " if layout in {"space", "four"} else "\t"
        blocks.append(newline.join(separator.join(row) for row in rows[layout]))
    first = {"tab": "-DOCSTART-\tO", "space": "-DOCSTART- O", "four": "-DOCSTART- -X- O O", "index": "-DOCSTART-"}
    head = f"{first[layout]}{newline * 2}" if docstart else ""
    return head + (newline * 2).join(blocks) + end.replace("\n", newline)


@pytest.mark.parametrize("scheme", ["IOB1", "IOB2", "BIOES", "BILOU"])
def test_layouts_all_say_the_same(scheme: str) -> None:
    ends = ("", "\n", "\n\n", "\n\n\n")
    for layout, newline, docstart, end in product(
        ("tab", "space", "four", "index"), ("\n", "\r\n"), (False, True), ends
    ):
        text = columns(scheme, layout, newline, docstart, end)
        parsed = read_bytes(text.encode(), name="own.txt")
        assert parsed.layout.to_dict()["scheme"] == scheme, text
        assert [list(record.sentence.words) for record in parsed.sentences] == WORDS, text
        assert [list(record.spans or ()) for record in parsed.sentences] == SPANS, text
        assert write(parsed.sentences, "conll", parsed.layout) == text


def test_layouts_json_lines_say_the_same() -> None:
    lines = []
    for words, spans in zip(WORDS, SPANS, strict=True):
        starts = [sum(len(word) + 1 for word in words[:at]) for at in range(len(words))]
        gold = [
            {"start": starts[s.start], "end": starts[s.end - 1] + len(words[s.end - 1]), "type": s.type} for s in spans
        ]
        lines.append(json.dumps({"text": " ".join(words), "gold": gold}))
    for text in ("\n".join(lines), "\r\n".join(lines) + "\r\n"):
        parsed = read_bytes(text.encode(), name="own.jsonl")
        assert [list(record.sentence.words) for record in parsed.sentences] == WORDS
        assert [list(record.spans or ()) for record in parsed.sentences] == SPANS
        assert write(parsed.sentences, "jsonl", parsed.layout) == text


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conll", "Ada\tB-per\nsang\tO\n\nin\tO\nPor", "a.conll:5: 1 columns where the file has 2 columns: 'Por'"),
        ("a.conll", "Ada\tB-per\nsang\tO\n\nin\tO\nPorto\t", "a.conll:5: '' is not a tag"),
        ("a.conll", "Ada NN - B-per\nsang VB - O\nin IN", "a.conll:3: 2 columns where the file has 4 columns: 'in IN'"),
        ("a.conll", "Ada\tB-per\nsang\tO\nPorto\tB-", "a.conll:3: 'B-' is not a tag"),
        ("a.jsonl", '{"text": "Ada sang"}\n{"text": "Por', "a.jsonl:2: not JSON"),
    ],
)
def test_layouts_a_file_that_breaks_off_is_told_from_a_bad_one(name: str, text: str, message: str) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        read_bytes(text.encode(), name=name)
    last = text.count("\n") + 1
    assert f"{name} has no newline after line {last}: if that line is cut off, as in an incomplete copy" in str(
        caught.value
    )
    # The same fault before the end is not taken for that.
    more = "\n\nGo\tO\nOn\tO\n" if name == "a.conll" and "\t" in text else "\n"
    with pytest.raises(BadInput) as caught:
        read_bytes((text + more).encode(), name=name)
    assert "broke off" not in str(caught.value)
    good = read_bytes(text.encode(), name=name, skip_bad=True) if last == 5 or name == "a.jsonl" else None
    assert good is None or (len(good.sentences), len(good.problems)) == (1, 1)


def test_layouts_a_type_that_breaks_off_makes_no_type() -> None:
    whole = "Ada\tB-person\nsang\tO\n\nin\tO\nPorto\tB-"
    with pytest.raises(BadInput, match=r"a.conll:5: type 'pers' is nowhere else .* 'person'") as caught:
        read_bytes(f"{whole}pers".encode(), name="a.conll")
    assert "has no newline after line 5" in str(caught.value)
    for end in ("pers\n", "person", "place"):
        (_, last) = read_bytes(f"{whole}{end}".encode(), name="a.conll").sentences
        assert [span.type for span in last.spans or ()] == [end.strip()]
    said = read_bytes(f"{whole}pers\n\nBo\tB-pers".encode(), name="a.conll")
    assert len(said.sentences) == 3


def test_layouts_mixed_columns_are_named_with_what_to_do() -> None:
    text = "Ada\tB-per\nsang\tVB\tO\nloudly\n\nin\tO\nPorto\tB-loc\n"
    with pytest.raises(BadInput) as caught:
        read_bytes(text.encode(), name="a.conll")
    assert [problem.split(":")[1] for problem in caught.value.problems] == ["2", "3"]
    assert "Each row needs 2 columns, with a tab between them: correct these lines, or leave bad" in str(caught.value)


def test_layouts_unknown_types_are_named_with_what_to_do() -> None:
    with pytest.raises(BadInput, match=r"a.conll:1: entity type 'per' is not one of person, place; rename it with a"):
        read_bytes(b"Ada\tB-per\nsang\tO\n", name="a.conll", types=("person", "place"))
