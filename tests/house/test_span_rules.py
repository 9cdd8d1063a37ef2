"""What a span is: whatever does not fit is refused in the same words, from whichever side it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from crossner_core.errors import WorkbenchError
from crossner_core.formats import read_bytes
from crossner_core.formats.base import Parsed
from crossner_core.schema import (
    FLAT,
    ONE_PIECE,
    WHOLE_TOKENS,
    LabelledSentence,
    Span,
    check_spans,
    sentence_from_words,
)
from crossner_core.tags import spans_from_tags, tags_from_spans
from db.engine import Store
from tests.support.archives import contents, zipped
from tests.support.builders import Tab, make_campaign, make_gold
from tests.support.paths import ROOT
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.data import archive, exchange, frozen

People = dict[str, Actor]
SENTENCE = sentence_from_words(["Kid", "A", "was", "recorded", "in", "Paris", "."], id="s")
TWO = (Span(0, 2, "album"), Span(1, 3, "song"))
NESTED = (Span(0, 2, "album"), Span(0, 1, "song"))


def reading(values: dict[str, Any], **options: Any) -> Callable[[], Parsed]:
    """Return what reads a JSON line."""
    return lambda: read_bytes(json.dumps(values).encode() + b"\n", name="f.jsonl", **options)


def conll(tags: list[str], **options: Any) -> Callable[[], Parsed]:
    """Return what reads a CoNLL file of one sentence with these tags."""
    rows = "".join(f"w{number} {tag}\n" for number, tag in enumerate(tags))
    return lambda: read_bytes(rows.encode(), name="f.conll", format="conll", **options)


TEXT = "Kid A was out"
GOLD = [{"start": 0, "end": 5, "type": "x"}, {"start": 4, "end": 9, "type": "y"}]
PLACES: dict[str, tuple[Callable[[], object], str]] = {
    "the engine": (lambda: check_spans(SENTENCE, TWO), FLAT),
    "the engine, nested": (lambda: check_spans(SENTENCE, NESTED), FLAT),
    "writing tags": (lambda: tags_from_spans(TWO, 7), FLAT),
    "reading tags": (lambda: spans_from_tags(["B-a|B-b", "I-a"]), FLAT),
    "reading tags leniently": (lambda: spans_from_tags(["B-a|B-b", "I-a"], strict=False), FLAT),
    "a snapshot": (lambda: frozen.to_line(LabelledSentence(SENTENCE, TWO)), FLAT),
    "our JSON lines": (reading({"text": TEXT, "gold": GOLD}), FLAT),
    "doccano": (reading({"text": TEXT, "label": [[0, 5, "x"], [4, 9, "y"]]}), FLAT),
    "GLiNER": (reading({"tokenized_text": ["a", "b", "c"], "ner": [[0, 1, "x"], [1, 2, "y"]]}), FLAT),
    "Hugging Face": (reading({"tokens": ["a", "b"], "ner_tags": ["B-x|B-y", "O"]}), FLAT),
    "CoNLL": (conll(["O", "B-song|I-album"]), FLAT),
    "CoNLL, leniently": (conll(["O", "B-song|I-album"], lenient=True), FLAT),
    "CoNLL in pieces": (conll(["BH-song", "O", "ID-song"]), ONE_PIECE),
    "offsets as a list": (
        reading({"text": TEXT, "entities": [{"offsets": [[0, 3], [6, 9]], "type": "x"}]}),
        ONE_PIECE,
    ),
    "spans as lists": (reading({"text": TEXT, "spans": [[[[0, 3], [6, 9]], "x"]]}), ONE_PIECE),
    "part of a token": (
        reading({"text": TEXT, "tokens": [[0, 3], [4, 5]], "gold": [{"start": 0, "end": 2, "type": "x"}]}),
        WHOLE_TOKENS,
    ),
    "part of spaCy's token": (
        reading({"text": TEXT, "tokens": [{"start": 0, "end": 3}], "ents": [{"start": 1, "end": 3, "label": "x"}]}),
        WHOLE_TOKENS,
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_span_is_refused_in_the_same_words(place: str) -> None:
    attempt, words = PLACES[place]
    with pytest.raises(WorkbenchError, match=words):
        attempt()


def test_what_is_left_out_is_reported_in_the_same_words() -> None:
    good = {"text": TEXT, "gold": []}
    lines = [good, {"text": TEXT, "gold": GOLD}, {"text": TEXT, "spans": [[[[0, 3], [6, 9]], "x"]]}]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    parsed = read_bytes(data, name="f.jsonl", skip_bad=True)
    assert len(parsed.sentences) == 1
    assert [(one.line, words in str(one)) for one, words in zip(parsed.problems, (FLAT, ONE_PIECE), strict=True)] == [
        (2, True), (3, True),
    ]  # fmt: skip


def test_a_campaign_takes_no_overlapping_spans_from_code_or_file(store: Store, people: People, campaign: int) -> None:
    with pytest.raises(WorkbenchError, match=FLAT):
        sentences.add_sentences(store, people["res"], campaign, [LabelledSentence(SENTENCE, TWO)])
    data = json.dumps({"text": TEXT, "gold": GOLD}).replace('"x"', '"song"').replace('"y"', '"album"').encode()
    with pytest.raises(WorkbenchError, match=FLAT):
        exchange.import_files(store, people["res"], campaign, [("f.jsonl", data)])


def test_a_save_of_overlapping_spans_is_refused(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    (rejection,) = tab.do("draft", tab.items()[0], [(0, 2, "person"), (1, 3, "band")]).rejections
    assert FLAT in rejection["message"]


def test_an_archive_with_overlapping_spans_is_refused(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    make_gold(store, people, campaign)
    files = contents(archive.export_campaign(store, people["adm"], campaign))
    lines = [json.loads(line) for line in files["sentences.jsonl"].decode().splitlines()]
    spans = next(work for task in lines[0]["tasks"] for work in task["annotations"] if len(work["spans"]) > 1)["spans"]
    spans[1] |= {"start": spans[0]["start"], "end": spans[0]["end"], "surface": spans[0]["surface"]}
    files["sentences.jsonl"] = "".join(json.dumps(line) + "\n" for line in lines).encode()
    with pytest.raises(WorkbenchError, match=f"sentences.jsonl:1: .*{FLAT}"):
        archive.import_campaign(store, people["adm"], zipped(files), name="Overlapping")


def test_the_editor_and_the_documents_use_the_words_too() -> None:
    model = (ROOT / "pages" / "components" / "span_editor" / "model.js").read_text(encoding="utf-8")
    assert FLAT in model, "the question before a span replaces others"
    document = " ".join((ROOT / "docs" / "corpora.md").read_text(encoding="utf-8").split())
    assert all(f"*{words}*" in document for words in (FLAT, ONE_PIECE, WHOLE_TOKENS))


def test_a_span_in_one_piece_is_read_and_our_tokens_are_cut_at_its_ends() -> None:
    (record,) = reading({"text": "an Oslo-born singer", "entities": [{"offsets": [[3, 7]], "type": "x"}]})().sentences
    assert [record.sentence.surface(span.start, span.end) for span in record.spans or ()] == ["Oslo"]
    (record,) = reading({"text": TEXT, "spans": [[[[0, 5]], "x"]]})().sentences
    assert record.spans == (Span(0, 2, "x"),)
