"""The four levels of a corpus: what belongs to each, their counts, and nested shares of them; the commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import typer

from crossner_core.adaptation.texts import from_level
from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, InvalidConfig, NotFound
from crossner_core.gazetteer.building import build_from_facts
from crossner_core.gazetteer.classes import specific_types
from crossner_core.gazetteer.facts import Typed
from crossner_core.gazetteer.manifest import Origin
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.subsets import Subset, keys_of, uniform
from crossner_core.wikipedia.corpus import Corpus, CorpusSentence
from crossner_core.wikipedia.levels import LEVELS, LevelConfig, Levels, specialised_types
from tests.support.corpus_builders import CLASSES, make_corpus
from workbench.commands import common, corpus_levels

MUSIC, POLITICS = load_domain("music"), load_domain("politics")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("home") / "corpora")


def _types(item: CorpusSentence) -> set[str]:
    assert item.mentions is not None
    return {kind for one in item.mentions for kind in specific_types(one.classes, MUSIC)[:1]}


def _keys(items: list[CorpusSentence]) -> list[tuple[str, int]]:
    return [(one.sentence.id, one.sentence.meta.get("copy", 0)) for one in items]


def test_levels_hold_what_the_paper_says(corpus: Corpus) -> None:
    every = list(corpus.sentences())
    levels = Levels(corpus, MUSIC)
    assert list(levels.iterate("domain")) == every
    assert list(levels.iterate("entity")) == [one for one in every if len(one.mentions or ()) >= 2]
    special = {"band", "album", "song", "musicalartist", "musicalinstrument", "musicgenre", "award"}
    task = [one for one in every if _types(one) & special]
    assert 0 < len(task) < len(every)
    assert list(levels.iterate("task")) == task
    assert list(levels.texts("task")) == [one.sentence.text for one in task]


def test_level_texts_know_the_classes_of_the_gazetteer_that_annotated(tmp_path: Path) -> None:
    strange = {page: ("Troubadour",) if "MusicalArtist" in found else found[-1:] for page, found in CLASSES.items()}
    folder = make_corpus(tmp_path / "corpora", classes=strange).folder
    tree = ClassTree.of({**BUILTIN.parents, "Troubadour": ("MusicalArtist",)}, source="own")
    origin = Origin("endpoint", address="http://example.org/sparql")
    build_from_facts([Typed("Ilse Maron", "Troubadour")], tmp_path / "gazetteers" / "invented", name="invented",
                     origin=origin, tree=tree)  # fmt: skip
    # Looked for beside the corpora by itself, elsewhere where it is said.
    own = list(from_level(folder, "music", "task").items())
    bundled = list(from_level(folder, "music", "task", gazetteers=tmp_path / "none").items())
    assert len(own) > len(bundled) > 0
    named = from_level(folder, "music", "task").provenance["corpus"]
    plain = from_level(folder, "music", "task", gazetteers=tmp_path / "none").provenance["corpus"]
    assert (
        named.keys() - plain.keys() == {"classes"}
        and "classes" not in from_level(folder, "music", "domain").provenance["corpus"]
    )
    same = tmp_path / "same" / "invented"  # one with DBpedia's own classes changes nothing
    build_from_facts([Typed("Ilse Maron", "Singer")], same, name="invented", origin=origin)
    assert from_level(folder, "music", "task", gazetteers=same.parent).provenance["corpus"] == plain


def test_integrated_is_entity_and_twice_task(corpus: Corpus) -> None:
    levels = Levels(corpus, MUSIC)
    entity, task = (_keys(list(levels.iterate(level))) for level in ("entity", "task"))
    expected = sorted([*entity, *((id, copy) for id, _ in task for copy in (1, 2))])
    found = _keys(list(levels.iterate("integrated")))
    assert sorted(found) == expected and len(set(found)) == len(found)
    once = Levels(corpus, MUSIC, config=LevelConfig(upsample=1))
    assert len(list(once.iterate("integrated"))) == len(entity) + len(task)


def test_counts_are_those_of_the_sentences(corpus: Corpus) -> None:
    for domain in (MUSIC, POLITICS):
        levels = Levels(corpus, domain)
        for row in levels.counts():
            items = list(levels.iterate(row.level))
            assert row.sentences == len(items)
            assert row.tokens == sum(len(one.sentence.tokens) for one in items)
            assert row.ratio == pytest.approx(row.tokens / corpus.manifest.counts.tokens)
    assert [row.published for row in Levels(corpus, MUSIC).counts()] == [1.0, 0.49, 0.13, 0.76]
    assert Levels(corpus, load_domain("conll2003")).counts()[1].published is None


def test_an_untyped_link_is_no_known_entity(tmp_path: Path) -> None:
    one = make_corpus(tmp_path, [("P", "[[Old Mill]] and [[Old Weir]] stand by [[Port Sella]].")])
    assert [row.sentences for row in Levels(one, MUSIC).counts()] == [1, 0, 0, 0]
    loose = Levels(one, MUSIC, config=LevelConfig(entities=1))
    assert [row.sentences for row in loose.counts()] == [1, 1, 0, 1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", [0, -7])
def test_shares_are_exact_and_nested(corpus: Corpus, level: str, seed: int) -> None:
    levels = Levels(corpus, MUSIC)
    whole = _keys(list(levels.iterate(level, 100, seed)))
    smaller: set[tuple[str, int]] = set()
    for percent in (1, 10, 25, 50, 99.5):
        found = _keys(list(levels.iterate(level, percent, seed)))
        assert len(found) == round(percent * len(whole) / 100)
        assert found == [one for one in whole if one in set(found)]  # in the corpus's order
        assert smaller <= set(found)
        smaller = set(found)
    assert list(levels.texts(level, 25, seed)) == [one.sentence.text for one in levels.iterate(level, 25, seed)]


def test_a_share_depends_on_the_seed_alone(corpus: Corpus, tmp_path: Path) -> None:
    one, again, other = (_keys(list(Levels(corpus, MUSIC).iterate("domain", 25, seed))) for seed in (1, 1, 2))
    assert one == again and one != other
    shards_differ = make_corpus(tmp_path, shard_pages=3)
    assert _keys(list(Levels(shards_differ, MUSIC).iterate("domain", 25, 1))) == one


def test_stored_types_of_the_very_domain_are_used(corpus: Corpus, tmp_path: Path) -> None:
    from dataclasses import replace

    from crossner_core.wikipedia.corpus import CorpusWriter, SentenceRows, pages_table

    rows = SentenceRows()
    item = next(corpus.sentences())
    rows.add(CorpusSentence(item.sentence, tuple(replace(one, type="person") for one in item.mentions or ())))
    writer = CorpusWriter(tmp_path / "typed")
    shard = writer.write_shard(0, rows.table(), pages_table([]))
    typed = writer.finish(replace(corpus.manifest, shards=(shard,), domain="music"))
    assert [row.sentences for row in Levels(typed, MUSIC).counts()] == [1, 1, 0, 1]
    assert [row.sentences for row in Levels(typed, POLITICS).counts()] == [1, 1, 0, 1]
    plain = writer.finish(replace(corpus.manifest, shards=(shard,), domain=None))
    assert [row.sentences for row in Levels(plain, MUSIC).counts()] == [1, 1, 1, 3]


def test_specialised_types_are_not_those_of_the_source() -> None:
    assert specialised_types(POLITICS) == ("politician", "politicalparty", "election")
    assert specialised_types(load_domain("conll2003")) == ()
    assert "event" in specialised_types(MUSIC, LevelConfig(general=("country",)))


def test_bad_questions_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    bare = make_corpus(tmp_path, classes=None)
    assert len(list(Levels(bare, MUSIC).texts("domain", 50))) == 30
    with pytest.raises(BadInput, match="not pre-annotated"):
        Levels(bare, MUSIC).counts()
    levels = Levels(corpus, MUSIC)
    with pytest.raises(InvalidConfig, match="no level 'tusk'; there are domain, entity, task, integrated"):
        next(levels.iterate("tusk"))
    for percent in (0, -1, 100.1, float("nan")):
        with pytest.raises(InvalidConfig, match="percent"):
            next(levels.iterate("task", percent))
    with pytest.raises(InvalidConfig, match="must be 1 or more"):
        LevelConfig(entities=0)


def test_subset_splits_ties_by_order() -> None:
    keys = np.array([5, 1, 5, 5, 9], np.uint64)
    for percent, expected in ((20, [1]), (40, [0, 1]), (60, [0, 1, 2]), (80, [0, 1, 2, 3]), (100, [0, 1, 2, 3, 4])):
        subset = Subset.of(keys, percent)
        parts = [subset.admit(keys[:2]), subset.admit(keys[2:])]
        assert np.flatnonzero(np.concatenate(parts)).tolist() == expected
    assert not Subset.of(np.zeros(0, np.uint64), 10).admit(keys[:0]).size


def test_keys_look_drawn_at_random() -> None:
    ids = [f"w-{at}" for at in range(4000)]
    drawn = uniform(keys_of(ids, seed=3))
    assert abs(drawn.mean() - 0.5) < 0.02 and abs((drawn < 0.1).mean() - 0.1) < 0.02
    assert abs(np.corrcoef(drawn, uniform(keys_of(ids, seed=3, copy=1)))[0, 1]) < 0.05


@pytest.fixture
def group(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    monkeypatch.setattr(common, "PLACE", common.Place(home=corpus.folder.parent.parent))
    app = typer.Typer()
    corpus_levels.add_to(app)
    return app


def _run(app: typer.Typer, *arguments: str) -> None:
    app(args=list(arguments), standalone_mode=False)


def test_commands_select_levels_and_export(
    group: typer.Typer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "selected"
    _run(group, "select", "invented", "--root", "Music of Velmark", "--depth", "0", "-o", str(new))
    assert "35" in capsys.readouterr().out.splitlines()[-1]
    _run(group, "levels", str(new), "--domain", "music")
    assert "0.13x" in capsys.readouterr().out
    out = tmp_path / "lines.txt"
    _run(group, "export", str(new), "-d", "music", "--level", "integrated", "--percent", "50", "-o", str(out))
    lines = out.read_text().splitlines()
    assert len(lines) == round(len(list(Levels(Corpus.open(new), MUSIC).texts("integrated"))) / 2)
    capsys.readouterr()
    _run(group, "export", str(new), "-d", "music", "--percent", "50")
    assert capsys.readouterr().out.splitlines() == lines


def test_commands_name_what_is_wrong(group: typer.Typer) -> None:
    with pytest.raises(NotFound, match="no corpus 'nowhere'; there are: invented"):
        _run(group, "levels", "nowhere", "-d", "music")
    with pytest.raises(BadInput, match="cannot be used: up to 60 letters"):
        _run(group, "select", "invented", "--name", "../m", "--root", "X")
    with pytest.raises(InvalidConfig, match="no level"):
        _run(group, "export", "invented", "-d", "music", "--level", "all")


def test_builder_covers_every_class() -> None:
    assert {name for names in CLASSES.values() for name in names[:1]} >= {"Band", "Politician", "Award"}
