"""Dumps are read strictly: what cannot be used is named, counted and skipped, or refused with what to do."""

from __future__ import annotations

import bz2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossner_core.errors import BadInput
from crossner_core.gazetteer.triples import LABELS, REDIRECTS, TYPES, Problems, TripleFile, texts_of, titles_of
from tests.support.gazetteers.builders import ONTOLOGY, RESOURCE, TYPE, label, redirect, typed, write


def read(path: Path, language: str = "en") -> tuple[list[tuple[str, str, str]], dict[str, int], list[str]]:
    said: list[str] = []
    problems = Problems(said.append)
    dump = TripleFile(path, language=language, problems=problems)
    rows = [
        (kind, left, right)
        for batches in dump.blocks()
        for kind, subjects, objects in batches
        for left, right in zip(subjects, objects, strict=True)
    ]
    return rows, problems.skipped, said


@pytest.mark.parametrize("name", ["types.ttl", "types.nt", "types.ttl.bz2", "types.nt.gz"])
def test_triples_are_read_from_plain_and_packed_files(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, "# started\n", typed("Blue_Lantern_(band)"), typed("Nördlich"), "# completed\n")
    rows, skipped, said = read(path)
    assert rows == [(TYPES, "Blue Lantern (band)", "Band"), (TYPES, "Nördlich", "Band")]
    assert skipped == {"comments and empty lines": 2} and said == []


def test_a_bz2_of_many_streams_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "types.ttl.bz2"
    lines = [typed(f"Page_{number}") for number in range(50)]
    whole = "".join(lines).encode()
    path.write_bytes(bz2.compress(whole[:333]) + bz2.compress(whole[333:334]) + bz2.compress(whole[334:]))
    assert [left for _, left, _ in read(path)[0]] == [f"Page {number}" for number in range(50)]


def test_a_file_without_a_last_line_end_and_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nt", typed("One").replace("\n", "\r\n"), typed("Two").rstrip("\n"))
    assert [left for _, left, _ in read(path)[0]] == ["One", "Two"]


def test_kinds_mixed_in_one_file_are_told_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "a.nt", typed("One"), label("One", "One"), redirect("Uno", "One"))
    assert read(path)[0] == [(TYPES, "One", "Band"), (LABELS, "One", "One"), (REDIRECTS, "Uno", "One")]


def test_labels_have_their_escapes_undone_and_one_language(tmp_path: Path) -> None:
    path = write(
        tmp_path / "labels.ttl",
        label("A", r"The \"A\" \u00e9\U0001F600 back\\slash"),
        label("B", "Bee", ""),
        label("C", "Zeh", "@de"),
        label("D", "Dee", "@EN"),
        label("E", r"has\ttab"),
        label("F", r"bell \u0007"),
        label("G", r"half \uD800 pair"),
    )
    rows, skipped, _ = read(path)
    assert [right for _, _, right in rows] == ['The "A" é😀 back\\slash', "Bee", "Dee"]
    assert skipped["labels in other languages"] == 1
    assert skipped["texts that cannot be read"] + skipped.get("bad lines", 0) == 3
    assert [right for _, _, right in read(path, "de")[0]] == ["Bee", "Zeh"]


def test_iris_have_their_escapes_undone(tmp_path: Path) -> None:
    path = write(
        tmp_path / "types.ttl",
        typed("AC%2FDC"),
        typed("Caf%C3%A9_100%25"),
        typed(r"\u0416\u0443\u043A"),
        typed("שלום_עולם"),
        typed("Who%3F"),
        typed("a__b_"),
    )
    assert [left for _, left, _ in read(path)[0]] == ["AC/DC", "Café 100%", "Жук", "שלום עולם", "Who?", "a b"]


@pytest.mark.parametrize(
    "page", ["Bad%FFbyte", "Bell%07", "Line%0Aend", "C1%C2%85x", "Half%E2%82", "100%_sure", "Nul%00"]
)
def test_an_iri_that_can_be_no_title_is_named_counted_and_skipped(tmp_path: Path, page: str) -> None:
    rows, skipped, said = read(write(tmp_path / "types.ttl", typed(page), typed("Good")))
    assert rows == [(TYPES, "Good", "Band")]
    assert skipped == {"titles that cannot be read": 1}
    assert len(said) == 1 and page in said[0] and "types.ttl" in said[0]


def test_lines_that_are_no_triple_are_reported_with_their_number(tmp_path: Path) -> None:
    junk = ["nonsense\n", "<a <b> <c> .\n", typed("No dots").replace(" .", ""), typed("Con\x01trol"), b"<\xff> .\n"]
    rows, skipped, said = read(write(tmp_path / "a.nt", typed("One"), *junk, "nope\n", "nope\n", typed("Two")))
    assert [left for _, left, _ in rows] == ["One", "Two"]
    assert skipped == {"bad lines": 7}
    assert [", line 2:" in said[0], ", line 3:" in said[1]] == [True, True]
    assert len(said) == 5 and "only counted" in said[-1]


def test_what_says_nothing_about_a_page_is_counted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.nt",
        typed("One"),
        f"<{RESOURCE}One> <{TYPE}> <http://www.w3.org/2002/07/owl#Thing> .\n",
        f"<http://www.wikidata.org/entity/Q1> <{TYPE}> <{ONTOLOGY}Band> .\n",
        f'<{RESOURCE}One> <http://xmlns.com/foaf/0.1/name> "One"@en .\n',
        f'<{RESOURCE}One> <{TYPE}> "Band" .\n',
        f"<{RESOURCE}One> <{ONTOLOGY}wikiPageRedirects> <http://www.wikidata.org/entity/Q1> .\n",
        f"_:node <{TYPE}> <{ONTOLOGY}Band> .\n",
    )
    rows, skipped, _ = read(path)
    assert rows == [(TYPES, "One", "Band")]
    assert skipped == {
        "classes outside the DBpedia ontology": 1,
        "other subjects or targets than pages": 2,
        "other predicates": 1,
        "values of the wrong kind": 1,
        "bad lines": 1,
    }


@pytest.mark.parametrize("suffix", [".bz2", ".gz"])
def test_a_file_that_is_cut_off_is_refused_with_what_to_do(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"types.ttl{suffix}", *(typed(f"Page_{hash(n)}_{n * 7919 % 1009}") for n in range(3000)))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BadInput, match=r"types\.ttl.*cut off.*fetch it again"):
        read(path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "types.ttl.bz2", *(typed(f"Page_{n}") for n in range(3000)))
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(BadInput, match=r"types\.ttl\.bz2"):
        read(path)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.ttl.*cannot be read"):
        read(tmp_path / "none.ttl")


def test_a_file_without_one_triple_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one triple per line"):
        read(write(tmp_path / "a.ttl", "@prefix : <http://x/> .\n", ":a :b :c .\n"))


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not a dump"):
        read(write(tmp_path / "a.ttl", b"x" * (17 << 20)))


@given(st.lists(st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12), min_size=1, max_size=6))
def test_titles_and_texts_read_alike_alone_and_together(pieces: list[str]) -> None:
    """The quick way over many at once gives what each gives alone."""
    raw = [piece.replace("\n", " ").encode() for piece in pieces]
    assert titles_of(raw) == [titles_of([one])[0] for one in raw]
    assert texts_of(raw) == [texts_of([one])[0] for one in raw]
