"""Coverage of gold by suggestions, counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.coverage import build, measure
from crossner_core.domains import load_domain
from crossner_core.errors import BadInput
from crossner_core.evaluation.coverage import Coverage, coverage
from crossner_core.experiments.report import put_section
from crossner_core.formats import open_file
from crossner_core.schema import Sentence, Span, Suggestion, sentence_from_words


def sentence(id: str) -> Sentence:
    """Build a sentence of eight words."""
    return sentence_from_words([*"abcdefgh"], id=id)


def suggestion(start: int, end: int, kind: str, source: str = "dbpedia") -> Suggestion:
    """Build a suggestion."""
    return Suggestion(start, end, kind, source, 0.5)


GOLD = [
    (sentence("one"), (Span(0, 2, "band"), Span(3, 4, "song"))),
    (sentence("two"), ()),
    (sentence("three"), (Span(0, 1, "band"),)),
]
SAID = [
    [suggestion(0, 2, "band", "link"), suggestion(3, 4, "album")],
    [suggestion(2, 3, "song")],
    [suggestion(0, 2, "band"), suggestion(0, 1, "band"), suggestion(0, 1, "band", "other")],
]


def test_coverage_counts_places_and_types() -> None:
    table = coverage(GOLD, SAID, types=("song", "event"))
    assert list(table.per_type) == ["song", "event", "album", "band"]
    assert table.per_type["band"] == Coverage(gold=2, found=2, correct=2, suggested=3, placed=2)
    assert table.per_type["song"] == Coverage(gold=1, found=1, correct=0, suggested=1, placed=0)
    assert table.per_type["album"] == Coverage(suggested=1, placed=1)
    assert table.per_type["event"] == Coverage()
    assert table.overall == Coverage(gold=3, found=3, correct=2, suggested=5, placed=3)
    assert table.sentences == 3


def test_coverage_counts_a_doubled_suggestion_once_and_for_the_first_source() -> None:
    table = coverage(GOLD, SAID)
    assert table.per_source == {
        "dbpedia": Coverage(gold=3, found=2, correct=1, suggested=4, placed=2),
        "link": Coverage(gold=3, found=1, correct=1, suggested=1, placed=1),
    }


def test_coverage_ratios_are_zero_where_undefined() -> None:
    nothing = Coverage()
    assert (nothing.coverage, nothing.recall, nothing.precision, nothing.span_precision) == (0, 0, 0, 0)
    some = Coverage(gold=4, found=3, correct=2, suggested=8, placed=4)
    assert (some.coverage, some.recall, some.precision, some.span_precision) == (0.75, 0.5, 0.25, 0.5)


@pytest.mark.parametrize("rows", [SAID[:2], [*SAID, []]])
def test_coverage_needs_one_row_for_every_sentence(rows: list[list[Suggestion]]) -> None:
    with pytest.raises(BadInput, match=r"gold sentence(s| three)"):
        coverage(GOLD, rows)
    with pytest.raises(BadInput):
        coverage(iter(GOLD), iter(rows))


@pytest.mark.parametrize(("name", "precision"), [("music", 0.85), ("politics", 0.8), ("ai", 0.85)])
def test_coverage_of_real_sentences_is_near_what_the_slice_allows(
    name: str, precision: float, shared: Path, tmp_path: Path
) -> None:
    source = shared / "data" / "dbpedia"
    if not (source / "slice").is_dir():
        pytest.skip(f"the DBpedia slice is not at {source / 'slice'}")
    gazetteer = build(source / "slice", source / "ontology.owl.xz", tmp_path / "slice")
    rows = open_file(shared / "data" / "ner" / name / "dev.txt").labelled
    cell = measure(gazetteer, load_domain(name), "dev", rows)
    assert cell.table.overall.found > 0.95 * cell.known
    assert cell.table.overall.correct > 0.95 * cell.typed
    assert cell.table.overall.precision > precision


def test_report_sections_leave_each_other_alone(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    put_section(page, "one", "## One\n\nold")
    put_section(page, "two", "## Two")
    put_section(tmp_path, "one", "## One\n\nnew\n")  # the page in a folder that has it
    with pytest.raises(BadInput, match=r"has a section three yet; name the page to put it into \(results\.md\)"):
        put_section(tmp_path, "three", "## Three")
    assert page.read_text(encoding="utf-8") == (
        "# Results\n\n<!-- begin one -->\n## One\n\nnew\n<!-- end one -->\n\n"
        "<!-- begin two -->\n## Two\n<!-- end two -->\n"
    )
    page.write_text("<!-- begin one -->", encoding="utf-8")
    with pytest.raises(BadInput, match="end one"):
        put_section(page, "one", "")
