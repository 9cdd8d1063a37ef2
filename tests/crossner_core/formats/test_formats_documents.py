"""Documents of several files: a format made here goes through a campaign and comes back; and what older rows hold."""

from __future__ import annotations

import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput
from crossner_core.formats import base, group_files, read_files, write_files
from crossner_core.formats.base import Format, Layout, NamedFile, Parsed, Problem, ReadOptions, Record, join_pieces
from crossner_core.formats.source import decode
from crossner_core.schema import (
    LabelledSentence,
    Sentence,
    SentenceLayout,
    Span,
    check_spans,
    fields_from_kept,
    meta_to_keep,
)
from crossner_core.tokenize import split_sentences, tokenize
from db import layer_rows
from db.engine import Store
from tests.support.training_store import person
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.commands.data import _named
from workbench.data import archive, datasets, exchange, frozen
from workbench.data.values import sentence_of


@dataclass(frozen=True)
class PairLayout(Layout):
    """How a pair was laid out: the ids' prefix of its spans, and the settings that all pairs share."""

    prefix: str = "T"
    settings: str = ""


def read(files: Sequence[NamedFile], options: ReadOptions) -> Iterator[Parsed]:
    """Read a text and the spans that stand off from it: `T1<tab>0 4 person`; other lines are counted as lost."""
    data = dict(files)
    settings = data.pop("pairs.conf", b"").decode()
    for name in data:
        if name.endswith(".spans"):
            stem = name.removesuffix(".spans")
            yield _document(stem, data[f"{stem}.txt"], data[name].decode(), settings, options)


def _document(stem: str, data: bytes, spans: str, settings: str, options: ReadOptions) -> Parsed:
    source = decode(data, f"{stem}.txt")
    lines = [line.split("\t") for line in spans.splitlines()]
    ranges = [line[1].split(" ") for line in lines if not line[0].startswith("R")]
    entities = [(int(start), int(end), type) for start, end, type in ranges]
    problems, records, done = [], [], 0
    for number, (start, end) in enumerate(split_sentences(source.text), 1):
        notes = {"before": source.text[done:start]} if source.text[done:start] != (" " if done else "") else {}
        own, done = SentenceLayout("pairs", notes), end
        text = source.text[start:end]
        sentence = Sentence(f"{stem}-{number}", text, tokenize(text), document=stem, offset=start, layout=own)
        firsts = {token.start + start: index for index, token in enumerate(sentence.tokens)}
        ends = {token.end + start: index for index, token in enumerate(sentence.tokens, 1)}
        inside = [entity for entity in entities if start <= entity[0] < end]
        try:
            marked = [Span(firsts[first], ends[last], options.our_type(type)) for first, last, type in inside]
        except BadInput as error:
            problems.append(Problem(f"{stem}.spans", 1, str(error)))
        else:
            records.append(Record(sentence, check_spans(sentence, marked)))
    layout = PairLayout(source.newline, tail=source.text[done:], prefix=lines[0][0][:1], settings=settings)
    losses = Counter(relations=sum(line[0].startswith("R") for line in lines))
    return Parsed(stem, "pairs", tuple(records), tuple(problems), layout, +losses)


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write each document's text and spans, and the settings once."""
    for document in documents:
        layout = document.layout
        assert isinstance(layout, PairLayout)
        yield f"{document.name}.txt", _text(document.sentences, layout).encode()
        yield f"{document.name}.spans", "".join(_lines(document.sentences, layout)).encode()
        losses.update(+Counter(links=sum(len(record.sentence.links) for record in document.sentences)))
    if any(settings := [getattr(document.layout, "settings", "") for document in documents]):
        yield "pairs.conf", settings[0].encode()


def _text(records: Sequence[Record], layout: PairLayout) -> str:
    return join_pieces([record.sentence.text for record in records], records, "pairs", " ", layout)


def _lines(records: Sequence[Record], layout: PairLayout) -> Iterator[str]:
    number = 0
    for index, record in enumerate(records):
        before = _text(records[: index + 1], replace(layout, tail=""))
        start = len(before) - len(record.sentence.text)
        for span in record.spans or ():
            first, last = record.sentence.char_range(span.start, span.end)
            number += 1
            yield f"{layout.prefix}{number}\t{start + first} {start + last} {span.type}\n"


@pytest.fixture
def pairs() -> Iterator[Format]:
    base.format_ids()  # those of the package come first
    yield base.register(
        Format(
            "pairs",
            "Text beside spans",
            (".spans",),
            read,
            write,
            layout_type=PairLayout,
            by_document=True,
            beside=(".txt", "pairs.conf"),
        )
    )
    del base.FORMATS["pairs"]


@pytest.fixture
def admin(store: Store) -> Actor:
    return person(store, "admin", "adm")


FILES = {
    "north/one.txt": "\n  Ада sang in Oslo.  She left 👩‍🚀 soon.\n\nMilo Fenn came, too.\n",
    "north/one.spans": "T1\t3 6 person\nT2\t15 19 location\nT3\t42 51 musicalartist\n",
    "two.txt": "The Tin Foxes played. Nobody came.",
    "two.spans": "E1\t4 13 band\n",
    "pairs.conf": "colour=red\n",
}
BYTES = [(name, text.encode()) for name, text in FILES.items()]


def music(store: Store, admin: Actor, name: str = "Music") -> int:
    return campaigns.create_campaign(store, admin, name=name, domain=load_domain("music"), suggestions_on=False)


def unzipped(data: bytes) -> dict[str, str]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        return {name: opened.read(name).decode() for name in opened.namelist()}


def test_documents_files_that_belong_together_are_one_group(pairs: Format) -> None:
    names = ["a.txt", "b.txt", "b.spans", "c.conll", "pairs.conf", "x/b.txt"]
    assert group_files(names) == [(None, [0]), ("pairs", [1, 2, 4]), (None, [3]), (None, [5])]
    assert group_files(["a.txt", "b.txt"], "plain") == [("plain", [0]), ("plain", [1])]
    assert group_files(["a.txt", "b.txt"], "pairs") == [("pairs", [0, 1])]


def test_documents_know_their_sentences_and_places(pairs: Format) -> None:
    parsed = read_files(BYTES)
    assert [(document.name, document.format) for document in parsed] == [("north/one", "pairs"), ("two", "pairs")]
    for document in parsed:
        text = FILES[f"{document.name}.txt"]
        for record in document.sentences:
            start = record.sentence.offset
            assert start is not None and record.sentence.document == document.name
            assert text[start : start + len(record.sentence.text)] == record.sentence.text
            assert not record.sentence.meta
    assert [document.type_names for document in parsed] == [("location", "musicalartist", "person"), ("band",)]
    assert dict(write_files(parsed, "pairs").files) == dict(BYTES)


@pytest.mark.parametrize("which", ["gold", "sentences"])
def test_documents_go_through_a_campaign_and_come_back(store: Store, admin: Actor, pairs: Format, which: str) -> None:
    campaign_id = music(store, admin)
    done = exchange.import_files(store, admin, campaign_id, BYTES, annotation="gold")
    assert (done.added, done.gold, done.format, done.note) == (5, 5, "pairs", "")
    written = exchange.export_files(store, admin, campaign_id, which, format="pairs")
    assert dict(written.files) == dict(BYTES) and not written.losses
    assert unzipped(exchange.export_layer(store, admin, campaign_id, which, format="pairs")) == FILES
    assert exchange.file_name("Music (demo)_2", which, "pairs") == f"music-demo-2-{which}.zip"
    with store.read() as session:
        kept = [sentence_of(row) for row in layer_rows.sentences(session, campaign_id)]
    assert [(sentence.document, sentence.offset) for sentence in kept[-2:]] == [("two", 0), ("two", 22)]
    again = archive.import_campaign(store, admin, archive.export_campaign(store, admin, campaign_id), name="Again")
    assert exchange.export_files(store, admin, again, which, format="pairs") == written


def test_documents_are_written_with_what_was_labelled_since(store: Store, admin: Actor, pairs: Format) -> None:
    campaign_id = music(store, admin)
    exchange.import_files(store, admin, campaign_id, BYTES, annotation="none")
    bare = dict(exchange.export_files(store, admin, campaign_id, "sentences", format="pairs").files)
    assert bare == {name: data if not name.endswith(".spans") else b"" for name, data in BYTES}
    other = exchange.export_layer(store, admin, campaign_id, "sentences", format="plain").decode()
    assert other.splitlines()[-1] == "Nobody came." and len(other.splitlines()) == 5


def test_documents_say_what_was_not_carried(store: Store, admin: Actor, pairs: Format) -> None:
    campaign_id = music(store, admin)
    files = [*BYTES[:3], ("two.spans", b"E1\t4 13 band\nR1\tE1 E1\nR2\tE1 E1\n")]
    assert (
        exchange.import_files(store, admin, campaign_id, files, annotation="gold").note == "Not imported: 2 relations."
    )
    linked = b'{"text": "See Porto", "links": [{"start": 4, "end": 9, "target": "Porto"}], "gold": []}\n'
    exchange.import_files(store, admin, campaign_id, [("l.jsonl", linked)], annotation="gold")
    lost = {"pairs": {"links": 1}, "conll": {"links": 1}, "plain": {"entities": 4, "links": 1}, "jsonl": {}}
    for format, losses in lost.items():
        assert exchange.export_files(store, admin, campaign_id, "gold", format=format).losses == losses, format


def test_documents_one_fault_refuses_all(store: Store, admin: Actor, pairs: Format) -> None:
    campaign_id = music(store, admin)
    files = [*BYTES[:3], ("two.spans", b"E1\t4 13 gang\n"), ("a.conll", b"Oslo\tB-city\n")]
    with pytest.raises(BadInput) as caught:
        exchange.import_files(store, admin, campaign_id, files, annotation="gold")
    assert [line.split(":")[0] for line in caught.value.problems] == ["two.spans", "a.conll"]
    assert campaigns.get_campaign(store, admin, campaign_id).sentences == 0


def test_documents_become_a_data_set(store: Store, admin: Actor, pairs: Format) -> None:
    data = json.dumps({"text": "Oslo sings.", "gold": [{"start": 0, "end": 4, "type": "location"}]}).encode()
    datasets.import_dataset(store, admin, name="set", splits={"train": ("t.jsonl", data)})
    written = unzipped(datasets.export_dataset(store, admin, "set", "train", format="pairs"))
    assert written == {"set-train.txt": "Oslo sings.\n", "set-train.spans": "T1\t0 4 location\n"}


def test_documents_of_a_folder_come_in_by_command(tmp_path: Path, store: Store, admin: Actor, pairs: Format) -> None:
    for name, text in {**FILES, "photo.png": "x"}.items():
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    campaign_id = music(store, admin)
    exchange.import_files(store, admin, campaign_id, list(_named(tmp_path / "folder")), annotation="gold")
    assert unzipped(exchange.export_layer(store, admin, campaign_id, "gold", format="pairs")) == FILES


def test_documents_a_name_stays_inside_the_zip(store: Store, admin: Actor, pairs: Format) -> None:
    campaign_id = music(store, admin)
    hostile = [("../../two.txt", b"Nobody came."), ("../../two.spans", b"T1\t0 6 person\n")]
    exchange.import_files(store, admin, campaign_id, hostile, annotation="gold")
    assert set(unzipped(exchange.export_layer(store, admin, campaign_id, "gold", format="pairs"))) == {
        "two.txt", "two.spans",
    }  # fmt: skip


_FILE = {
    "format": "conll", "newline": "\r\n", "bom": False, "tail": None, "type_map": {}, "separator": "\t", "width": 2,
    "token_column": 0, "tag_column": 1, "index_column": None, "index_from": 1, "scheme": "IOB2", "lenient": False,
}  # fmt: skip
# As versions that kept no documents stored them.
OLD = [
    {"_layout": {"conll": {"before": "# made\r\n"}, "file": {"name": "a.conll", "layout": _FILE}}},
    {"_layout": {"file": {"name": "a.conll", "layout": _FILE}}},
    {"year": 1999, "_layout": {"jsonl": {"keys": ["text", "gold", "year"], "raw": "{}"}}},
    {"year": 1999},
    {},
]  # fmt: skip


@pytest.mark.parametrize("meta", OLD)
def test_documents_older_rows_are_read_and_kept_as_they_were(meta: dict[str, Any]) -> None:
    sentence = Sentence("s", "a", tokenize("a"), **fields_from_kept(meta))
    assert meta_to_keep(sentence) == meta
    assert "_layout" not in sentence.meta and sentence.offset is None
    assert sentence.document == meta.get("_layout", {}).get("file", {}).get("name")
    line = frozen.to_line(LabelledSentence(sentence, ()))
    assert json.loads(line).get("meta", {}) == meta and frozen.to_line(frozen.from_line(line)[0]) == line


def test_documents_older_rows_go_out_as_they_came(store: Store, admin: Actor) -> None:
    campaign_id = music(store, admin)
    text = "# made\r\nOslo\tB-location\r\nsang\tO\r\n\r\nNobody\tO\r\n"
    exchange.import_files(store, admin, campaign_id, [("a.conll", text.encode())], annotation="gold")
    with store.read() as session:
        assert [row.meta for row in layer_rows.sentences(session, campaign_id)] == OLD[:2]
    assert exchange.export_layer(store, admin, campaign_id, "gold", format="conll") == text.encode()


def test_documents_articles_of_columns_are_documents() -> None:
    text = "Mira O\n\n-DOCSTART- O\n\nA O\n\nB O\n\n-DOCSTART- O\n\nC O\n"
    (parsed,) = read_files([("w.conll", text.encode())])
    assert [record.sentence.document for record in parsed.sentences] == [
        "w.conll",
        "w.conll 1",
        "w.conll 1",
        "w.conll 2",
    ]


def test_documents_plain_text_knows_its_places() -> None:
    text = "First one. And two.\n\nThird  here.\n"
    (parsed,) = read_files([("p.txt", text.encode())], split="paragraphs")
    places = [(record.sentence.offset, record.sentence.text) for record in parsed.sentences]
    assert places == [(0, "First one."), (11, "And two."), (21, "Third  here.")]


def test_documents_of_any_name_are_files_of_their_own(store: Store, admin: Actor, pairs: Format) -> None:
    stems = ["x", "../x", "X", "/x", "CON", "a:b", "n" * 300, "e\u0301", "é", "..", "north/one"]
    files = [(f"{stem}{ending}", text) for number, stem in enumerate(stems) for ending, text in
             ((".txt", f"Ada sang {number}.".encode()), (".spans", b"T1\t0 3 person\n"))]  # fmt: skip
    campaign_id = music(store, admin)
    assert exchange.import_files(store, admin, campaign_id, files, annotation="gold").added == len(stems)
    written = unzipped(exchange.export_layer(store, admin, campaign_id, "gold", format="pairs"))
    names = sorted(name.removesuffix(".txt") for name in written if name.endswith(".txt"))
    assert names == sorted(
        ["x", "x-2", "X-3", "x-4", "_CON", "a_b", "n" * 200, "e\u0301", "é-2", "document", "north/one"]
    )
    assert len({text for name, text in written.items() if name.endswith(".txt")}) == len(stems)
    assert len(read_files([(name, text.encode()) for name, text in written.items()])) == len(stems)


def test_documents_two_files_of_one_name_are_refused(pairs: Format) -> None:
    with pytest.raises(BadInput, match=r"Two files are called 'two\.txt'"):
        read_files([*BYTES, ("two.txt", b"Another.")])
