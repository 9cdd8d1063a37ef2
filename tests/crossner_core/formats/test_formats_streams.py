"""Large files are read portion by portion: the same comes out, and no more is read than is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from crossner_core.errors import BadInput
from crossner_core.formats import (
    json_lists,
    make_document,
    parquet,
    read_files,
    source,
    standoff,
    stream_files,
    write_files,
)
from crossner_core.formats.base import NamedFile, Parsed, get_format, written_ids
from crossner_core.formats.source import OnDisk
from crossner_core.schema import LabelledSentence, Span, sentence_from_words

CONLL = (
    "-DOCSTART- O\r\n\r\n# made for this test\r\nThe\tO\r\nTin\tI-band\r\n\r\n\r\n \r\n"
    "Milo\tB-person\r\nsang\tO\r\n\r\n"
    "-DOCSTART- O\r\n\r\n# another\r\n\r\n# two\r\nÖrebro\tI-place\r\nbroken\r\n\r\n𝔾\tI-band\r\n.\tO\r\n# end\r\n"
)
JSONL = (
    '\n{"text": "Ада sang “Moon 👩‍🚀”.", "gold": [{"start": 0, "end": 3, "type": "person"}], "year": 1999}'
    "\n\n"
    '{"id": "b", "text": "The Lanterns"}\n{"id": "b", "text": "Again"}\n{not json\n'
    '{"text":"Last \\u00e9","gold":[]}\n\n\n'
)
TAGGED = '{"tokens": ["Ada", "won"], "ner_tags": ["I-person", "O"]}\n{"tokens": ["Bo"], "ner_tags": ["I-person"]}\n' * 3
PLAIN = "He came. She\n\nleft\n\nin a hurry. Nobody\nsaw her.\n\n\nDr. Who  was\nthere. 👩‍🚀 It rained.\n\nEnd"
CONLLU = "# newdoc id = a\n# text = x\n1\tMara\t_\t_\t_\t_\t_\t_\t_\tNER=B-person\n\n" * 4
DOCCANO = (
    '{"text": "Mara sang.", "label": [[0, 4, "person"]]}\n\nno json\n{"text": "𝔾o", "label": []}\nno json either\n'
)
STUDIO = (
    '[ {"data": {"text": "𝔾 Mara sang."}, "annotations": [{"result": [{"value": '
    '{"start": 3, "end": 7, "text": "Mara", "labels": ["person"]}}]}]},\n\n'
    '{"id": 12, "data": {"text": "Nobody \\"]} came."}, "annotations": []} ]\n'
)
SAMPLES: Sequence[tuple[str, str, str, Mapping[str, Any]]] = (
    ("a.conll", CONLL, "conll", {}),
    ("a.conll", CONLL, "conll", {"type_map": {"group": "band", "band": "band"}}),
    ("b.conll", "Ada\nsang\n\nBo", "conll", {}),
    ("cut.conll", "Ada\tB-person\n\nBo\tB-person\n\nCy\tB-per", "conll", {}),
    ("b.jsonl", JSONL, "jsonl", {}),
    ("bom.jsonl", "\ufeff" + JSONL.replace("\n", "\r\n"), "jsonl", {}),
    ("carriage.jsonl", JSONL.replace("\n", "\r"), "jsonl", {}),
    ("t.jsonl", TAGGED, "jsonl", {}),
    ("p.txt", PLAIN, "plain", {}),
    ("p.txt", PLAIN, "plain", {"split": "paragraphs"}),
    ("p.txt", PLAIN.replace("\n", "\r\n"), "plain", {"split": "paragraphs", "max_tokens": 3}),
    ("u.conllu", CONLLU, "conllu", {}),
    ("d.jsonl", DOCCANO, "doccano", {}),
    ("s.json", STUDIO, "label-studio", {}),
)


def labelled(count: int) -> list[LabelledSentence]:
    """Return sentences of different lengths, with astral characters."""
    rows = []
    for number in range(count):
        words = ["Mara", "𝔾", "sang", *["really"] * (number % 5), str(number), "."]
        rows.append(LabelledSentence(sentence_from_words(words, id=f"s{number}"), (Span(0, 2, "person"),)))
    return rows


def as_read(files: Sequence[NamedFile], format: str, options: Mapping[str, Any]) -> tuple[list[Any], Counter[str]]:
    """Return what documents hold, and all problems; whose they are and which hint is given may vary."""
    documents = read_files(files, format, skip_bad=True, **options)
    held = [(d.name, d.sentences, d.layout, d.losses, d.notes, bool(d.hint)) for d in documents]
    return held, Counter(str(problem) for document in documents for problem in document.problems)


def small(monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    monkeypatch.setattr(source, "PORTION", portion)
    monkeypatch.setattr(json_lists, "_BLOCK", portion)
    monkeypatch.setattr(parquet, "_BATCH", 3)
    monkeypatch.setattr(standoff, "_PIECE", 2)


@pytest.mark.parametrize("portion", [1, 7, 40])
@pytest.mark.parametrize(("name", "text", "format", "options"), SAMPLES)
def test_reading_in_portions_gives_what_reading_at_once_gives(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, format: str, options: Mapping[str, Any], portion: int
) -> None:
    files = [(name, text.encode())]
    at_once = as_read(files, format, options)
    small(monkeypatch, portion)
    assert as_read(files, format, options) == at_once
    if at_once[1]:
        refused = [error_of(files, format, options)]
        monkeypatch.undo()
        assert refused == [error_of(files, format, options)]


def error_of(files: Sequence[NamedFile], format: str, options: Mapping[str, Any]) -> list[str]:
    with pytest.raises(BadInput) as caught:
        read_files(files, format, **options)
    return sorted(caught.value.problems)


@pytest.mark.parametrize("format", written_ids())
def test_every_format_written_is_read_in_pieces_as_at_once(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    files = written(format, 23)
    at_once = as_read(files, format, {})
    small(monkeypatch, 50)
    assert as_read(files, format, {}) == at_once
    assert sum(len(sentences) for _, sentences, *_ in at_once[0]) >= 23


def written(format: str, count: int, step: int = 6) -> Sequence[NamedFile]:
    rows = labelled(count)
    step = step if get_format(format).one_file else count
    documents = [make_document(f"d{at}", rows[at : at + step], format) for at in range(0, count, step)]
    suffix = get_format(format).suffixes[0]
    files = write_files(documents, format).files
    return [(name if Path(name).suffix else f"{name}{suffix}", data) for name, data in files]


@pytest.mark.parametrize(
    "format", ["conll", "conll2003", "conllu", "doccano", "jsonl", "label-studio", "plain", "prodigy"]
)
def test_a_reader_reads_no_further_than_what_was_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    small(monkeypatch, 2_000)
    ((name, data),) = written(format, 3_000)
    (tmp_path / name).write_bytes(data)
    file = OnDisk(tmp_path / name)
    pieces = stream_files([(name, file)], format)
    sentences, furthest = 0, list[float]()
    for piece in pieces:
        sentences += len(piece.sentences)
        furthest.append(file.taken / file.size - sentences / 3_000)
    assert sentences == 3_000 and file.taken == file.size
    # A block of the operating system, a portion and what is decoded ahead.
    assert max(furthest) < 0.35 and min(furthest) < 0.2, (min(furthest), max(furthest))


def test_a_document_with_problems_is_refused_after_its_last_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch, 10)
    text = "Ada\tO\n\n" * 5 + "Bo\n\n" + "Cy\tO\n\n" * 5
    came: list[Parsed] = []
    with pytest.raises(BadInput, match=r"a.conll:11: 1 columns"):
        came.extend(stream_files([("a.conll", text.encode())], "conll"))


def test_json_lists_name_the_line_of_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lists, "_BLOCK", 3)
    assert list(json_lists.list_items(b' [1234567, {"a": [1, "\xf0\x9d\x94\xbe"]} ] \n', "x")) == [
        1234567,
        {"a": [1, "𝔾"]},
    ]
    assert list(json_lists.list_items(b"[]", "x")) == [] and list(json_lists.list_items(b"12345678", "x")) == [12345678]
    for data, reason in {
        b"[1,\n2\n": "x:3: not JSON: the list does not end",
        b"[1\n 2]": "x:2: not JSON: a comma or ] is expected",
        b"[1]\n\n7": "x:3: not JSON: something follows its end",
        b'[1,\n{"a" 1}]': "x:2: not JSON: Expecting ':' delimiter",
        b'[1,\n\n"\xff"]': "x:3: byte 0xff is not UTF-8",
        b"[" * 100_000: "x:1: not JSON: it is nested too deep",
        b" \n": "x:1: the file is empty",
    }.items():
        with pytest.raises(BadInput) as caught:
            list(json_lists.list_items(data, "x"))
        assert str(caught.value).startswith(reason), caught.value
