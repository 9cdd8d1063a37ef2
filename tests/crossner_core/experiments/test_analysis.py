from __future__ import annotations

import importlib.util
from dataclasses import replace
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from crossner_core.colours import MARKS
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.evaluation.scores import Score
from crossner_core.experiments.corpora import Corpus, read_corpus
from crossner_core.experiments.published import pdaln_sentences, published_types
from crossner_core.experiments.results import StudyResult
from crossner_core.experiments.running import run_study
from crossner_core.experiments.studies import representations
from crossner_core.experiments.studies.per_category import (
    MACRO,
    MICRO,
    _published,
    f1_table,
    precision_recall_table,
    rows,
    type_rows,
)
from crossner_core.experiments.studies.vocabulary import (
    corpora_overlap,
    corpora_table,
    overlap_figure,
    overlap_table,
)
from crossner_core.experiments.study import StudyConfig, study
from crossner_core.formats import write
from crossner_core.schema import LabelledSentence
from tests.support.training_builders import labelled, own_sentences, save_encoder, tiny_encoder, tiny_recipe


def corpus(id: str, *sentences: str) -> Corpus:
    """Return a corpus whose training sentences are these, without entities in train; one in test."""
    train = tuple(labelled(text.split(), []) for text in sentences)
    return Corpus(id, ("person",), {}, train, (), (labelled(["zebra", "zebra"], [(0, 1, "person")]),),
                  duplicates={"train→test": 3, "dev→test": 4})  # fmt: skip


# --- by entity type


RUNS = {
    "one": [
        {"band": Score(4, 4, 2), "song": Score(2, 0, 0), "misc": Score(0, 0, 0)},
        {"band": Score(4, 2, 2), "song": Score(2, 2, 2), "misc": Score(0, 1, 0)},
    ],
    "two": [{"band": Score(4, 4, 4), "song": Score(2, 2, 1), "misc": Score(0, 0, 0)}],
}


def test_categories_mean_and_deviation_over_seeds() -> None:
    rows = {row.type: row for row in type_rows(RUNS, {"one": {"band": 70.0}})}
    assert list(rows) == ["band", "song", "misc", MICRO, MACRO]
    band = rows["band"].f1["one"]  # F1 50 and 66.67
    assert (band.n, band.published) == (2, 70.0)
    assert band.mean == pytest.approx(58.3333, abs=1e-3) and band.sd == pytest.approx(11.7851, abs=1e-3)
    assert rows["band"].support == 4
    assert (rows["band"].f1["two"].mean, rows["band"].f1["two"].sd) == (100.0, None)
    # One run predicts no song: precision has one value, recall and F1 two.
    song = rows["song"]
    assert (song.precision["one"].n, song.recall["one"].n, song.f1["one"].mean) == (1, 2, 50.0)


def test_categories_absent_type_has_no_f1_unless_it_is_predicted() -> None:
    rows = {row.type: row for row in type_rows(RUNS)}
    assert (rows["misc"].f1["two"].mean, rows["misc"].f1["two"].n) == (None, 0)
    assert (rows["misc"].f1["one"].mean, rows["misc"].f1["one"].n) == (0.0, 1)


def test_categories_micro_counts_together_and_macro_takes_types_that_occur() -> None:
    rows = {row.type: row for row in type_rows(RUNS)}
    assert rows[MICRO].f1["two"].mean == pytest.approx(100 * 2 * 5 / 12)
    assert rows[MICRO].support == 6
    assert rows[MACRO].f1["two"].mean == pytest.approx((100 + 50) / 2)


def test_categories_tables_name_every_way() -> None:
    rows = type_rows(RUNS)
    table = f1_table("t", rows)
    assert table.columns == ("entity type", "one", "two", "entities")
    assert [row[-1] for row in table.rows] == [4, 2, 0, 6, None]
    both = precision_recall_table("t", rows)
    assert both.columns[1:] == ("one: precision", "one: recall", "two: precision", "two: recall")
    assert [row[0] for row in both.rows] == ["band", "song", "misc", MICRO]
    assert "| band | 58.33 ± 11.79 | 100.00 | 4 |" in table.to_markdown()


def test_categories_published_are_those_of_the_papers() -> None:
    assert published_types("BERT-base", "direct", "music")["song"] == 26.57
    dapt = published_types("BERT-base + DAPT (span, integrated)", "pretrain_finetune", "music")
    assert (dapt["musicgenre"], dapt["song"], dapt["misc"]) == (80.82, 58.67, 28.67)
    assert published_types("PDALN", "pdaln", "wikigold")["misc"] == 37.53
    assert published_types("BERT-base", "direct", "ai") == published_types("other", "direct", "music") == {}
    assert published_types("BERT-base + DAPT (span, integrated)", "joint", "music") == {}


# --- vocabulary


def test_vocabulary_overlap_of_corpora_by_hand() -> None:
    one = corpus("one", "The lanterns sang loudly in Porto", "lanterns sang")
    two = corpus("two", "Lanterns toured Leeds", "toured 2010")
    shared = corpora_overlap([one, two])
    # Without stop words and numbers: lanterns sang loudly porto zebra | lanterns toured leeds zebra.
    assert shared.sizes == (5, 4)
    # The best four of the first are lanterns, sang, zebra and loudly: two of them are in the second.
    assert shared.matrix[0][1] == shared.matrix[1][0] == 50.0
    assert corpora_overlap([one, two], splits=("train",)).sizes == (4, 3)
    assert corpora_overlap([one, two], top=1).matrix[0][1] == 0.0


def test_vocabulary_table_and_figure() -> None:
    shared = corpora_overlap([corpus("one", "lanterns sang"), corpus("two", "lanterns toured")])
    table = overlap_table("t", shared, note="n")
    assert table.columns == ("%", "one", "two", "words") and table.rows[0][0] == "one" and table.rows[1][-1] == 3
    figure = go.Figure(overlap_figure("t", shared))  # plotly checks every name in it
    assert figure.data[0].z[0][0] == 100.0 and len(figure.data) == 1


def test_vocabulary_corpora_table_counts() -> None:
    table = corpora_table("t", [corpus("one", "lanterns sang", "Leeds")])
    assert table.rows == (("one", 2, 0, 0, 0, 1, 1, 1, 50.0, "3 / 4"),)


# --- representations


def clusters(distance: float, count: int = 30) -> representations.EntityVectors:
    rng = np.random.default_rng(1)
    types = tuple("band" if at % 3 else "song" for at in range(count))
    centres = np.asarray([[distance if name == "band" else 0.0] * 4 for name in types])
    return representations.EntityVectors(centres + rng.normal(size=(count, 4)), types, ("x",) * count)


def test_representations_entities_are_picked_by_seed_in_order() -> None:
    items = own_sentences(12)
    every = representations.pick_entities(items, 1000, np.random.default_rng(0))
    assert len(every) == sum(len(item.spans) for item in items)
    few = representations.pick_entities(items, 7, np.random.default_rng(0))
    assert few == representations.pick_entities(items, 7, np.random.default_rng(0))
    assert few != representations.pick_entities(items, 7, np.random.default_rng(1))
    places = [every.index(one) for one in few]
    assert places == sorted(set(places)) and len(places) == 7


def test_representations_vectors_are_those_of_each_entitys_first_token() -> None:
    encoder = tiny_encoder(positions=32)
    words = ["toured"] * 70 + ["Quiet", "Harbour", "left", "unable"]
    # A sentence of three windows, one whose entity begins with two subwords, and one more to pad.
    items = (
        labelled(words, [(1, 2, "x"), (70, 72, "band")]),
        labelled(["sang", "unable", "Ines"], [(1, 3, "song")]),
        labelled(["Ines"], [(0, 1, "person")]),
    )
    chosen = representations.pick_entities(items, 100, np.random.default_rng(0))
    found = representations.entity_vectors(chosen, encoder, batch_size=2, device="cpu")
    assert found.types == ("x", "band", "song", "person")
    assert found.surfaces == ("toured", "Quiet Harbour", "unable Ines", "Ines")
    for row, text, at in ((2, "sang unable ines", 2), (3, "ines", 1)):
        ids = encoder.tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            alone = encoder.model(**ids).last_hidden_state[0, at].numpy()
        np.testing.assert_allclose(found.vectors[row], alone, atol=1e-5)
    assert not np.allclose(found.vectors[0], found.vectors[1])
    assert np.abs(found.vectors).sum(axis=1).min() > 0  # no entity of a later window is left out


def test_representations_separation_tells_apart_from_mixed() -> None:
    apart, mixed = representations.separation(clusters(50.0)), representations.separation(clusters(0.0))
    assert apart.accuracy == 1.0 and apart.silhouette > 0.9 and apart.per_type == {"band": 1.0, "song": 1.0}
    assert apart.chance == pytest.approx(20 / 30)
    assert mixed.silhouette < 0.2 and mixed.accuracy < 0.9


def test_representations_neighbours_leave_the_entity_itself_out() -> None:
    # Three bands in a row of songs: the middle one has two bands beside it and, next, three songs. Counting itself
    # it would be right.
    line = np.arange(24, dtype=np.float32)[:, None] * [1.0, 0.0]
    types = ("song",) * 10 + ("band",) * 3 + ("song",) * 11
    assert representations.separation(representations.EntityVectors(line, types, ("x",) * 24)).per_type["band"] == 0.0


@pytest.mark.parametrize(("count", "types"), [(10, 2), (30, 1)])
def test_representations_separation_refuses_too_little(count: int, types: int) -> None:
    entities = clusters(1.0, count)
    if types == 1:
        entities = representations.EntityVectors(entities.vectors, ("band",) * count, entities.surfaces)
    with pytest.raises(BadInput, match=f"{count} entities of {types} types: it takes 18 of two types"):
        representations.separation(entities)


def test_representations_places_come_by_seed_and_fit_few_points() -> None:
    vectors = clusters(20.0, 18).vectors
    found = representations.places(vectors, 3)
    assert found.shape == (18, 2) and np.isfinite(found).all()
    assert np.array_equal(found, representations.places(vectors, 3))


@pytest.mark.skipif(importlib.util.find_spec("umap") is None, reason="UMAP is not installed (requirements-umap.txt)")
def test_representations_places_by_umap_keep_clusters_together() -> None:
    entities, by_umap = clusters(20.0), representations.Projection("umap", neighbours=5)
    found = representations.places(entities.vectors, 3, by_umap)
    assert np.array_equal(found, representations.places(entities.vectors, 3, by_umap))
    flat = representations.EntityVectors(found, entities.types, entities.surfaces)
    assert representations.separation(flat).accuracy == 1.0
    assert representations.places(entities.vectors[:4], 3, by_umap).shape == (4, 2)


def test_representations_say_what_umap_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(representations, "version", missing)
    with pytest.raises(InvalidConfig, match=r"requirements-umap\.txt, or use the method tsne"):
        _ = representations.Projection("umap").described


def picture(corpus: str, encoder: str, types: int) -> representations.Picture:
    rng = np.random.default_rng(0)
    names = tuple(f"t{at % types:02d}" for at in range(60))
    entities = representations.EntityVectors(rng.normal(size=(60, 3)), names, names)
    return representations.Picture(
        corpus, encoder, rng.normal(size=(60, 2)), entities, representations.separation(entities)
    )


def test_representations_figure_has_a_plot_a_picture_and_one_look_a_type() -> None:
    pictures = [picture("ai", "a", 11), picture("ai", "b", 11), picture("music", "a", 3), picture("music", "b", 3)]
    figure = go.Figure(representations.pictures_figure("t", pictures, 2))
    assert {trace.xaxis for trace in figure.data} == {"x", "x2", "x3", "x4"}
    assert len(figure.layout.annotations) == 4 and figure.layout.grid.rows == 2
    assert sorted(trace.name for trace in figure.data if trace.showlegend) == [f"t{at:02d}" for at in range(11)]
    looks = {(trace.name, trace.marker.color, trace.marker.symbol) for trace in figure.data}
    assert len(looks) == len({look[1:] for look in looks}) == 11
    assert sum(len(trace.x) for trace in figure.data) == 240
    known = go.Figure(representations.pictures_figure("t", pictures, 2, {"t03": 5, "t04": 5, "elsewhere": 0}))
    marks = {trace.name: trace.marker for trace in known.data}
    assert marks["t03"].color == marks["t04"].color == MARKS[5] and marks["t03"].symbol != marks["t04"].symbol
    assert {MARKS[0], MARKS[5]}.isdisjoint(mark.color for name, mark in marks.items() if name not in ("t03", "t04"))
    table = representations.separation_table("t", pictures)
    assert [row[:4] for row in table.rows][1] == ("ai", "b", 60, 11)
    assert len(representations.per_type_table("t", pictures[:2]).rows) == 11


# --- as studies


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Corpora north and press of made-up sentences."""
    root = tmp_path_factory.mktemp("corpora")
    for at, name in enumerate(("north", "press")):
        for split, count, offset in (("train", 10, 0), ("dev", 6, 30), ("test", 12, 40)):
            items: tuple[LabelledSentence, ...] = own_sentences(count, offset=offset + 3 * at)
            (root / name).mkdir(exist_ok=True)
            (root / name / f"{split}.conll").write_text(write(items, "conll"))
    return root


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tiny encoder in a folder."""
    return str(save_encoder(tmp_path_factory.mktemp("encoders") / "tiny"))


def run(id: str, data: Path, out: Path, **values: object) -> StudyResult:
    config = study(id).config.from_dict(values)
    result = list(run_study(id, config, data=data, out=out))[-1].result
    assert result is not None and result.complete
    go.Figure(result.figure)
    return result


def test_study_vocabulary_trains_nothing(data: Path, tmp_path: Path) -> None:
    result = run("vocabulary", data, tmp_path, corpora=("north", "press"), top=20)
    assert result.cells == () and result.tables[0].rows[0][1] == 100.0
    assert (tmp_path / "studies" / "vocabulary" / "table-2.csv").is_file()
    with pytest.raises(InvalidConfig, match="needs two corpora or more, not north"):
        run("vocabulary", data, tmp_path, corpora=("north",))
    with pytest.raises(InvalidConfig, match="splits is empty"):
        study("vocabulary").config(splits=())  # type: ignore[call-arg]


def test_study_representations_compares_encoders(data: Path, encoder: str, tmp_path: Path) -> None:
    chosen = {"corpora": ("north",), "encoders": (f"one={encoder}", f"two={encoder}"), "most": 24, "seeds": (7,)}
    result = run("representations", data, tmp_path, **chosen)
    table = result.tables[0]
    assert [row[1:4] for row in table.rows] == [("one", 24, 3), ("two", 24, 3)]
    assert table.rows[0][4:] == table.rows[1][4:]
    assert any("scikit-learn" in note and "seed 7" in note for note in result.notes)
    assert run("representations", data, tmp_path, **chosen).tables == result.tables


def test_study_per_category_takes_the_cells_apart(data: Path, encoder: str, tmp_path: Path) -> None:
    plain = StudyConfig().recipe_of().to_dict()
    small = tiny_recipe(encoder=encoder, source="press", max_epochs=2, source_epochs=1, head_first_epochs=1).to_dict()
    recipe = {name: value for name, value in small.items() if value != plain[name]}
    result = run("per_category", data, tmp_path, corpora=("north",), seeds=(1, 2), recipe=recipe)
    first, second = result.tables
    assert first.columns == ("entity type", "tagger, direct", "tagger, pretrain_finetune", "entities")
    assert [row[0] for row in first.rows] == ["band", "location", "person", MICRO, MACRO]
    support = dict.fromkeys(("band", "location", "person"), 0)
    for item in read_corpus("north", data).test:
        for span in item.spans:
            support[span.type] += 1
    assert {row[0]: row[-1] for row in first.rows[:3]} == support
    assert len(second.columns) == 5 and len(result.cells) == 4

    # A row of its own recipe, fewer sentences: its cells are found again by the same rules.
    one = {**recipe, "max_epochs": 1}
    rows = {"tagger, direct": {"max_epochs": 2}}
    chosen = {"settings": ("direct",), "architectures": ("tagger", "crf"), "size": 5, "rows": rows}
    result = run("per_category", data, tmp_path, corpora=("north", "press"), seeds=(1,), recipe=one, **chosen)
    assert [table.title.rpartition(" ")[2] for table in result.tables] == ["north", "press"] * 2
    assert result.tables[0].columns[1:3] == ("tagger, direct", "crf, direct") and len(result.cells) == 4
    assert all(row[1].n == row[2].n == 1 for row in result.tables[1].rows)  # type: ignore[union-attr]


def test_per_category_shows_pdalns_figures_beside_its_own_set_up_alone() -> None:
    many = study("per_category").config(corpora=("north",), seeds=(1,), settings=("pdaln",), architectures=("crf",))
    assert [_published(row, "wikigold", many) for row in rows(many)] == [{}]
    (row,) = rows(replace(many, size=100))
    assert _published(row, "wikigold", replace(many, size=100))
    fewer = replace(many, size=10)
    assert not _published(rows(fewer)[0], "wikigold", fewer) and pdaln_sentences("webpage") == 10
    (row,) = rows(replace(many, size=100, architectures=("tagger",)))
    assert not _published(row, "wikigold", replace(many, size=100))
