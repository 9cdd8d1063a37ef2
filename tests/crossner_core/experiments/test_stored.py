"""The stored results of studies are those of docs/results, and the published figures those that papers print."""

from __future__ import annotations

import json

import pytest

from crossner_core.experiments.published import printed
from crossner_core.experiments.stored import StoredStudy, stored_of, stored_studies
from crossner_core.experiments.study import study, study_ids
from crossner_core.experiments.tables import Measured, Table
from docs.paper_tables import PAPERS as PAPER_TABLES
from docs.paper_tables import side_by_side
from docs.stored_studies import PAPERS, SUMMARY, WRITTEN, all_pages, claims, read_pages
from tests.support.paths import ROOT

TEXT = all_pages()


def test_stored_studies_are_those_of_the_pages_of_results() -> None:
    assert stored_studies() == read_pages(TEXT), "run python -m docs.stored_studies"
    assert len(stored_studies()) == TEXT.count("<!-- begin study-") > 20
    assert {stored.id for stored in stored_studies()} <= set(study_ids())


def test_stored_cells_name_no_folder_of_a_machine() -> None:
    stores = sorted((ROOT / "docs" / "studies").rglob("cells.jsonl"))
    encoders = {
        json.loads(line)["recipe"]["encoder"]
        for store in stores
        for line in store.read_text(encoding="utf-8").splitlines()
    }
    assert len(stores) > 1 and "minilm" in encoders and not [name for name in encoders if name.startswith("/")]


def test_summary_has_each_claim_once() -> None:
    text = SUMMARY.read_text(encoding="utf-8")
    assert f"<!-- begin claims -->\n{claims(stored_studies())}\n<!-- end claims -->" in text, (
        "run python -m docs.stored_studies"
    )
    assert len(text.splitlines()) <= 60, "the summary is one screen"
    rows = [line for line in claims(stored_studies()).splitlines() if line.startswith("| ")][2:]
    assert len(rows) == len({row.split("|")[1] for row in rows}) > 8


def test_papers_page_has_each_published_row() -> None:
    text, made = PAPERS.read_text(encoding="utf-8"), side_by_side(stored_studies())
    assert f"<!-- begin papers -->\n{WRITTEN}\n\n{made}\n<!-- end papers -->" in text, (
        "run python -m docs.stored_studies"
    )
    for _, source, *_ in PAPER_TABLES:
        for table in printed(source):
            for system, setting, *_ in table.rows:
                assert f"| {system} | {setting} | " in made
    lines = [line[2:] for line in made.splitlines() if line.startswith("- ")]
    pairs = [part for line in lines for part in line.split("; ") if " here (" in part]
    assert len(pairs) == len(set(pairs)) > 10 and "Also in another order, listed above: " in made


def test_rows_are_found_by_the_figures_they_stand_for_and_orders_are_counted() -> None:
    def measured(crf: float, n: int = 3) -> StoredStudy:
        rows = [
            ("ours A", Measured(60.0, 1.0, n, 73.07), Measured(50.0, 1.0, n, 61.72), str(n)),  # LANER on music, ai
            ("ours B", Measured(crf, 1.0, n, 70.34), Measured(51.0, 1.0, n, 58.03), str(n)),  # BERT + CRF
            ("ours C", Measured(1.0, 1.0, n, 70.34), Measured(1.0, 1.0, n, 99.99), str(n)),  # no row of a paper
        ]
        return StoredStudy("x", "", "", "", "", (Table("t", ("", "music", "ai", "n"), tuple(rows)),))

    made = side_by_side([measured(58.0)])
    assert "| LANER | pretrain_finetune | 67.39 | 55.00 | IOB2 | music, ai | 3 | x: ours A |" in made
    counted = "Pairs of rows with corpora in common, in brackets those in the published order: "
    assert f"{counted}on 3 seeds or more and decoded alike, 1 (1).\n" in made
    other = (
        "- LANER, pretrain_finetune − BERT + CRF, pretrain_finetune: -0.50 here (music +0.00, ai -1.00), +3.21 there;"
    )
    otherwise = "1 (0).\n\nPairs in another order, on"
    assert f"alike, {otherwise} 3 seeds or more:\n\n{other} we do" in side_by_side([measured(60.0)])
    assert "ours C" not in made
    few = side_by_side([measured(60.0, n=1)])
    assert f"{counted}on fewer seeds, {otherwise} fewer seeds, where chance may be why:\n\n{other}" in few


def test_an_order_is_that_of_rows_decoded_alike_where_there_are_such() -> None:
    def study_of(id: str, *rows: tuple[object, ...]) -> StoredStudy:
        free = 'recipe changes `{"constrained": false}`' if id == "laner_ablation" else ""
        return StoredStudy(id, "", free, "", "", (Table("t", ("", "music", "n"), rows),))

    laner = ("ours A", Measured(50.0, 1.0, 3, 73.07), "3")
    crf = ("ours B", Measured(51.0, 1.0, 3, 70.34), "3")
    unlike = side_by_side([study_of("laner_ablation", laner), study_of("x", crf)])
    assert "| IOB2 | music | 3 | x: ours B" in unlike and "| argmax | music | 3 | laner_ablation: ours A" in unlike
    assert "-1.00 here (music), +2.73 there; one is held to IOB2, the other is not" in unlike
    assert "on 3 seeds or more, one held to IOB2 and the other not, 1 (0)" in unlike
    alike = side_by_side([study_of("laner_ablation", laner, crf)])
    assert "| best path | music | 3 | laner_ablation: ours B" in alike and "there; we do not know why" in alike
    again = study_of("laner_ablation", ("ours C", Measured(52.0, 1.0, 3, 70.34), "3"))
    assert "ours C" in side_by_side([study_of("x", crf), again])
    held = study_of("x", ("ours D", Measured(53.0, 1.0, 3, 73.07), "3"), crf)
    both = side_by_side([study_of("laner_ablation", laner), held])
    assert "| laner_ablation: ours A |" in both and "decoded alike, 1 (1).\n" in both and "the other not" not in both


def test_an_order_is_that_over_the_corpora_of_both_rows() -> None:
    def counted(seeds: str) -> str:
        rows = (
            ("ours A", Measured(50.0, 1.0, 3, 73.07), Measured(90.0, 1.0, 3, 61.72), seeds),  # LANER on music, ai
            ("ours B", Measured(51.0, 1.0, 3, 70.34), None, "3"),  # BERT + CRF
        )
        return side_by_side([StoredStudy("x", "", "", "", "", (Table("t", ("", "music", "ai", "n"), rows),))])

    other = "- LANER, pretrain_finetune − BERT + CRF, pretrain_finetune: -1.00 here (music), +2.73 there"
    assert f"on 3 seeds or more:\n\n{other}" in counted("3")
    assert f"on fewer seeds, where chance may be why:\n\n{other}" in counted("1–3")


def test_equal_means_are_in_no_order() -> None:
    rows = (
        ("ours A", Measured(82.23, 1.0, 3, 73.07), Measured(81.54, 1.0, 3, 61.72), "3"),  # LANER on music, ai
        ("ours B", Measured(82.61, 1.0, 3, 70.34), Measured(81.16, 1.0, 3, 58.03), "3"),  # BERT + CRF
    )
    made = side_by_side([StoredStudy("x", "", "", "", "", (Table("t", ("", "music", "ai", "n"), rows),))])
    assert "decoded alike, 1 (0)." in made and "+0.00 here (music -0.38, ai +0.38)" in made


def test_every_stored_table_is_printed_so_on_a_page() -> None:
    tables = [table for stored in stored_studies() for table in stored.tables]
    assert len(tables) == sum(line.startswith(("| ---", "| :--")) for line in _study_part().splitlines())
    for table in tables:
        assert f"**{table.title}**\n\n{table.to_markdown()}" in TEXT, table.title
        assert not table.note or f"\n{table.note}\n" in TEXT


def _study_part() -> str:
    parts = TEXT.split("<!-- begin study-")[1:]
    return "\n".join(part.partition("<!-- end")[0] for part in parts)


def test_stored_table_holds_means_deviations_and_published_figures() -> None:
    first = stored_of("transfer")[0]
    assert (first.section, first.made_on[:4]) == ("", "2026") and "Encoder minilm" in first.measured
    means, gains = first.tables[0].rows[0], first.tables[1].rows[0]
    assert isinstance(means[1], Measured) and means[1].published == 66.59 and means[1].sd is not None
    assert isinstance(gains[1], Measured) and gains[1].signed
    assert [stored.section for stored in stored_of("transfer")] == sorted(
        stored.section for stored in stored_of("transfer")
    )


@pytest.mark.parametrize(
    ("id", "row"),
    [
        ("transfer", ("BERT-base", "direct", 66.56, 63.73, 66.59, 59.95, 50.37)),
        ("laner_ablation", ("LANER", "pretrain_finetune", 71.65, 69.29, 73.07, 67.98, 61.72)),
        ("ner_bert", ("BERT-base", "direct", 83.20, 76.23)),
        ("pdaln_ablation", ("distillation", -1.94, -1.68, -1.38, -1.56)),
        ("augmentation", ("wikigold", 50.16, 51.81, 53.06, 53.71)),
        ("per_category", ("song", 26.57, 42.04)),
    ],
)
def test_studies_carry_what_their_papers_print(id: str, row: tuple[str | float, ...]) -> None:
    tables = study(id).published
    assert row in {line for table in tables for line in table.rows}
    assert all(" et al. 20" in table.title for table in tables)


def test_rows_trained_otherwise_are_counted_apart_and_in_no_order() -> None:
    def study_of(id: str, label: str, f1: float, published: float, section: str = "") -> StoredStudy:
        row = (label, Measured(f1, None, 1, published), "1")
        return StoredStudy(id, section, "", "", "", (Table("t", ("", "wikigold", "n"), (row,)),))

    crf = study_of("pdaln_grid", "by the paper's recipe", 50.0, 48.45)
    varied = study_of("pdaln_baselines", "varied", 70.0, 47.74, "char-lstm")
    la_dtl = study_of("pdaln_baselines", "as all others", 60.0, 47.74, "words")
    best_run = study_of("pdaln_grid", "best of 5 runs", 55.0, 53.06)
    made = side_by_side([crf, varied, la_dtl, best_run])
    assert "pdaln_grid: best of 5 runs" in made and "on fewer seeds" not in made
    assert "words: as all others" in made and "varied" not in made
    assert "order: not to be compared, since one follows the paper's recipe, the other ours, 1 (0)." in made
    assert "BERT + CRF, semi-supervised −" not in made
