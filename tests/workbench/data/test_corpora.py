"""Corpora of the home folder: which there are, what one holds, who may look, and their words compared."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from crossner_core.errors import BadInput, NotAllowed, NotFound
from crossner_core.vocabulary import overlap
from db.engine import Store
from db.migrate import migrate
from tests.support.app_corpora import TEXTS, make_corpus
from workbench.accounts.actors import Actor
from workbench.data import corpora, datasets
from workbench.demo import wiki
from workbench.reports import overlaps
from workbench.reports.overlaps import TextSource
from workbench.settings import Settings, open_store, settings_of

People = dict[str, Actor]
CONLL = b"Mara\tB-person\nVell\tI-person\nhums\tO\nquietly\tO\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


def test_corpora_are_listed_with_their_counts(store: Store, people: People, home: Path) -> None:
    made = make_corpus(home)
    make_corpus(home, "bare", mentions=False)
    bare, tiny = corpora.list_corpora(store, people["eva"])
    assert (tiny.name, tiny.hash, tiny.problem) == ("tiny", made.manifest.hash, "")
    assert (tiny.pages, tiny.sentences, tiny.links, tiny.mentions) == (3, 8, 11, 11)
    assert (tiny.gazetteer, tiny.domain) == ("tiny", "music") and "tiny.xml" in tiny.made_from
    assert (bare.gazetteer, bare.domain) == (None, None)


def test_corpora_of_an_empty_home_are_none(store: Store, people: People) -> None:
    assert corpora.list_corpora(store, people["res"]) == ()
    with pytest.raises(NotFound, match="none yet"):
        corpora.open_corpus(store, people["res"], "tiny")


def test_corpora_name_a_damaged_one_with_the_reason(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    (home / "corpora" / "tiny" / "manifest.json").write_text("{", encoding="utf-8")
    make_corpus(home, "halved")
    shutil.rmtree(home / "corpora" / "halved" / "pages")
    halved, tiny = corpora.list_corpora(store, people["res"])
    assert "missing" in halved.problem and "manifest.json" in tiny.problem
    with pytest.raises(BadInput):
        corpora.search(store, people["res"], "tiny", "x")


def test_corpora_search_whatever_the_case(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    found = corpora.search(store, people["eva"], "tiny", " NORWAY ")
    assert [one.sentence.text for one in found] == [TEXTS[4][2], TEXTS[7][2]]
    assert len(corpora.search(store, people["eva"], "tiny", "the", limit=2)) == 2


def test_corpora_sample_by_seed(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    draws = [
        [one.sentence.id for one in corpora.sample(store, people["eva"], "tiny", count=4, seed=seed)]
        for seed in (7, 7, 8)
    ]
    assert draws[0] == draws[1] != draws[2] and len(set(draws[0])) == 4
    assert len(corpora.sample(store, people["eva"], "tiny", count=100)) == 8


@pytest.mark.parametrize("name", ["..", "../corpora/tiny", "tiny/", "", "."])
def test_corpora_are_found_in_the_home_folder_alone(store: Store, people: People, home: Path, name: str) -> None:
    make_corpus(home)
    with pytest.raises(NotFound, match="there are: tiny"):
        corpora.open_corpus(store, people["res"], name)


def test_corpora_are_not_for_annotators(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    for call in (
        lambda who: corpora.list_corpora(store, who),
        lambda who: corpora.search(store, who, "tiny", "a"),
        lambda who: corpora.sample(store, who, "tiny"),
        lambda who: overlaps.text_sources(store, who),
        lambda who: overlaps.vocabulary_of(store, who, TextSource("corpus", "tiny", 8, "")),
    ):
        with pytest.raises(NotAllowed):
            call(people["ann1"])


def test_overlap_counts_corpora_data_sets_and_campaigns(
    store: Store, people: People, campaign: int, home: Path
) -> None:
    make_corpus(home)
    datasets.import_dataset(store, people["res"], name="small", splits={"train": ("t.conll", CONLL)})
    found = {one.kind: one for one in overlaps.text_sources(store, people["res"])}
    assert [found[kind].sentences for kind in overlaps.KINDS] == [8, 1, 6]
    words = [overlaps.vocabulary_of(store, people["res"], found[kind]) for kind in overlaps.KINDS]
    assert "cello" in words[0].words and words[1].words == ("hums", "mara", "quietly", "vell")
    shared = overlap(words)
    assert shared.matrix[0][0] == 100.0 and 0 < shared.matrix[0][2] < 100
    few = overlaps.vocabulary_of(store, people["res"], found["corpus"], most=1)
    assert set(few.words) <= set(TEXTS[0][2].rstrip(".").lower().split())


def test_overlap_says_when_a_source_is_gone(store: Store, people: People) -> None:
    for kind in overlaps.KINDS:
        with pytest.raises(NotFound):
            overlaps.vocabulary_of(store, people["res"], TextSource(kind, "gone", 1, ""))
    with pytest.raises(BadInput, match="kind of source"):
        overlaps.vocabulary_of(store, people["res"], TextSource("book", "gone", 1, ""))


def test_settings_of_a_store_are_those_it_was_opened_with(tmp_path: Path, store: Store) -> None:
    other = Settings(home=tmp_path / "other")
    opened = open_store(other)
    migrate(opened)
    assert settings_of(opened).corpora == tmp_path.resolve() / "other" / "corpora"
    assert settings_of(store).gazetteers == tmp_path.resolve() / "gazetteers"


def test_demo_wiki_becomes_a_gazetteer_and_a_corpus_once(store: Store, people: People, home: Path) -> None:
    settings = Settings(home=home)
    lines = list(wiki.make_if_absent(settings))
    assert len(lines) == 1 and "sentences" in lines[0]
    assert list(wiki.make_if_absent(settings)) == []
    made = next(one for one in corpora.list_corpora(store, people["res"]) if one.name == wiki.NAME)
    assert made.pages == made.kept + made.redirects + made.categories + sum(made.skipped.values())
    assert made.sentences > 60 and made.mentions > 100 and made.domain == wiki.DOMAIN
    found = corpora.search(store, people["res"], wiki.NAME, "Its single")[0]
    assert [(one.type, one.source) for one in found.mentions or ()] == [("song", "link"), ("country", "link")]


def test_demo_wiki_that_cannot_be_made_stops_nothing(home: Path) -> None:
    (home / "gone").write_text("a file, no folder", encoding="utf-8")
    assert "was not made" in next(iter(wiki.make_if_absent(Settings(home=home / "gone"))))
