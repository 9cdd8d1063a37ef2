"""A zip of files: INCEpTION's exported projects, folders of other formats, and what must not be unpacked."""

from __future__ import annotations

import datetime as dt
import io
import zipfile
from collections.abc import Mapping
from typing import Any

import pytest

from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.formats import make_document, read_files, write_files, zipped
from crossner_core.formats.base import Parsed, Record, Work
from crossner_core.schema import Span, sentence_from_words

WORDS = sentence_from_words(["Ada", "sang", "in", "Oslo", "."], id="1")
ADA, OSLO = Span(0, 1, "person"), Span(3, 4, "location")


def packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def of(spans: tuple[Span, ...] | None, format: str = "webanno-tsv") -> bytes:
    """Return a document of one sentence as a file; of XMI a zip, as INCEpTION packs it."""
    files = dict(write_files([make_document("work", [Record(WORDS, spans)], format)], format).files)
    return packed(files) if len(files) > 1 else next(iter(files.values()))


def read(files: Mapping[str, bytes], **options: Any) -> list[Parsed]:
    return read_files([("project.zip", packed(files))], **options)


def spans(document: Parsed) -> list[tuple[Span, ...] | None]:
    return [record.spans for record in document.sentences]


@pytest.mark.parametrize(("format", "suffix"), [("webanno-tsv", "tsv"), ("cas-xmi", "zip"), ("cas-json", "json")])
def test_project_of_inception_gives_each_document_once(format: str, suffix: str) -> None:
    documents = read(
        {
            "exportedproject7.json": b"{}",
            "guideline/rules.pdf": b"%PDF",
            "source/one.txt": b"Ada sang in Oslo.",
            f"annotation/one.txt/ann.{suffix}": of((ADA,), format),
            f"annotation/one.txt/bob.{suffix}": of((OSLO,), format),
            "annotation_ser/one.txt/ann.ser": b"\xac\xed",
            f"curation/one.txt/CURATION_USER.{suffix}": of((ADA, OSLO), format),
            f"annotation/two.txt/bob.{suffix}": of((OSLO,), format),
            f"annotation/three.txt/INITIAL_CAS.{suffix}": of(None, format),
        }
    )
    assert {document.name: spans(document) for document in documents} == {
        "one.txt": [(ADA, OSLO)], "two.txt": [(OSLO,)], "three.txt": [None],
    }  # fmt: skip
    losses = {document.name: document.losses for document in documents}
    assert losses["one.txt"][zipped.OTHERS] == 2 and sum(own.get(zipped.REST, 0) for own in losses.values()) == 2
    assert {document.format for document in documents} == {format}


def test_whose_work_is_read_is_asked_where_it_is_not_plain() -> None:
    files = {"annotation/one.txt/ann.tsv": of((ADA,)), "annotation/one.txt/bob.tsv": of((OSLO,))}
    with pytest.raises(
        BadInput, match=r"'one\.txt' has no curation, but is annotated by ann, bob; name one as annotator"
    ):
        read(files)
    (document,) = read(files, format="zip", annotator="bob")
    assert spans(document) == [(OSLO,)] and document.losses[zipped.OTHERS] == 1
    with pytest.raises(BadInput, match="not annotated by eve, but by ann, bob"):
        read(files, format="zip", annotator="eve")
    with pytest.raises(BadInput, match="INCEpTION's own format; export the project with UIMA CAS XMI or WebAnno TSV"):
        read({"annotation_ser/one.txt/ann.ser": b"\xac\xed"})


@pytest.mark.parametrize("format", ["webanno-tsv", "cas-xmi", "cas-json"])
def test_what_is_exported_by_person_comes_in_again(format: str) -> None:
    when = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    layers = {
        "first": Work((ADA,), "ann", when),
        "second": Work((ADA, OSLO), "bob", when),
        "gold": Work((OSLO,), "eva"),
    }
    document = make_document("notes/one", [Record(WORDS, (OSLO,), layers)], format)
    files = dict(write_files([document], format).files)
    (again,) = read(files)
    assert (again.name, spans(again)) == ("notes/one", [(OSLO,)])


def test_zip_of_other_files_is_read_as_they_are() -> None:
    brat = {"set/a.txt": b"Ada sang.", "set/a.ann": b"T1\tperson 0 3\tAda", "__MACOSX/set/._a.txt": b"x"}
    (document,) = read(brat)
    assert (document.format, document.name, spans(document)) == ("brat", "set/a", [(ADA,)])
    lines = {"a.jsonl": b'{"text": "Ada sang.", "label": [[0, 3, "person"]]}\n'}
    (document,) = read(lines, format="zip", of_format="doccano")
    assert spans(document) == [(ADA,)]
    with pytest.raises(BadInput, match=r"a\.ann:1: .*person"):
        read({**brat, "set/a.ann": b"T1\tperson 0 30\tAda"})
    (document,) = read({"a.conll": b"Ada B-person\n\nsang X\n"}, skip_bad=True)
    assert [problem.file for problem in document.problems] == ["a.conll"]


def test_zip_that_leads_elsewhere_or_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("../a.txt", "/a.txt"):
        with pytest.raises(BadInput, match="leads elsewhere"):
            read({name: b"Ada sang."})
    with pytest.raises(BadInput, match="a zip within a zip"):
        read({"a.zip": packed({"a.txt": b"Ada sang."})})
    with pytest.raises(BadInput, match="holds no file"):
        read({".hidden": b"x"})
    with pytest.raises(BadInput, match="no zip that can be read"):
        read_files([("a.zip", packed({"a.txt": b"Ada sang."})[:-30])])
    with pytest.raises(InvalidConfig, match="is not a format to write"):
        write_files([make_document("a", [WORDS], "plain")], "zip")
    monkeypatch.setattr(zipped, "MOST_BYTES", 5_000)
    with pytest.raises(BadInput, match="unpacks to more than 5,000 bytes"):
        read({"a.txt": b"Ada sang. " * 1_000})
    nested = {f"annotation/{name}/ann.zip": packed({"ann.txt": b"Ada sang. " * 300}) for name in ("one", "two")}
    with pytest.raises(BadInput, match=r"two/ann\.zip:1: it unpacks to more than 5,000 bytes in all"):
        read(nested)
    with pytest.raises(BadInput, match="there twice"):
        read({"a.txt": b"Ada sang.", "./a.txt": b"Bob sang."})
    monkeypatch.setattr(zipped, "MOST_FILES", 1)
    with pytest.raises(BadInput, match="holds 2 files; at most 1"):
        read({"a.txt": b"Ada sang.", "b.txt": b"Ada sang."})
