"""NER-BERT's entity-tagging corpus: labels, the three filters, balancing, versions, and its files."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, Conflict, InvalidConfig, NotFound, StorageError
from crossner_core.formats import read_bytes
from crossner_core.gazetteer.ontology import BUILTIN, ClassTree
from crossner_core.subsets import keys_of, uniform
from crossner_core.wikipedia.corpus import Corpus, CorpusSentence, CorpusWriter, SentenceRows, pages_table
from crossner_core.wikipedia.entity_tagging import ENTITY, TaggingConfig, build_tagging_corpus, labels
from crossner_core.wikipedia.levels import Levels
from crossner_core.wikipedia.tagged_corpus import TaggingManifest, read_tagged, typed_sentences
from tests.support.corpus_builders import CLASSES, make_corpus
from workbench.commands import common, corpus_levels

PLAIN = TaggingConfig(min_entities=1, balance=False)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpora"))


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Sentences with one known link and 0 to 5 unknown ones; the class of every 40th is rare."""
    classes = {f"Town {at}": ("Town",) for at in range(30)} | {f"Fort {at}": ("Castle",) for at in range(30)}
    sentences = [
        (
            f"Page {at // 50}",
            f"[[{'Fort' if at % 40 == 0 else 'Town'} {at % 30}]] "
            + " ".join(f"[[Unknown {at} {n}]] and" for n in range(at % 6))
            + f" {at}.",
        )
        for at in range(1200)
    ]
    return make_corpus(tmp_path_factory.mktemp("crowded"), sentences, classes=classes)


def _spans(folder: Path) -> dict[str, list[tuple[str, str]]]:
    return {
        one.sentence.id: [(one.sentence.surface(span.start, span.end), span.type) for span in one.spans]
        for one in read_tagged(folder)
    }


def test_sentences_to_learn_from_have_types_that_can_be_read(
    crowded: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_tagging_corpus(crowded, tmp_path, PLAIN)
    every = [item for item in read_tagged(tmp_path, repeat=False) if all(one.type != ENTITY for one in item.spans)]
    assert len(every) < len(list(read_tagged(tmp_path, repeat=False)))  # some have names of unknown class
    corpus_levels.tagged_sentences(tmp_path, count=10_000)
    out, err = capsys.readouterr()
    items = read_bytes(out.encode(), name="out.jsonl").labelled
    assert {one.type for item in items for one in item.spans} == {"Town", "Castle"}
    assert [item.sentence.id for item in items] == [item.sentence.id for item in every]
    assert f"{len(every):,} sentences, 2 types" in err
    few = typed_sentences(tmp_path, BUILTIN.parents, 10)
    assert len(few) == 10
    assert {one.type for item in typed_sentences(tmp_path, (), 10_000) for one in item.spans} == {"town", "castle"}
    more = {item.sentence.id for item in typed_sentences(tmp_path, BUILTIN.parents, 20)}
    assert {item.sentence.id for item in few} < more


def test_links_carry_their_class_and_plain_names_nothing(corpus: Corpus, tmp_path: Path) -> None:
    build_tagging_corpus(corpus, tmp_path, PLAIN)
    found = _spans(tmp_path)
    assert found["inventedwiki-1-11-0"] == [("Ilse Maron", "singer"), ("The Slow Ferries", "band")]
    every = {one.sentence.id: one for one in corpus.sentences()}
    assert set(found) == {id for id, one in every.items() if any(link.target in CLASSES for link in one.sentence.links)}
    for id, spans in found.items():
        assert len(spans) == len(every[id].sentence.links)  # names without a link are no spans


def test_a_link_without_a_class_is_entity(tmp_path: Path) -> None:
    text = "[[Port Sella]] beside the [[Old Weir]] and {Velmark}."
    build_tagging_corpus(make_corpus(tmp_path, [("P", text)]), tmp_path / "out", PLAIN)
    assert list(_spans(tmp_path / "out").values()) == [[("Port Sella", "city"), ("Old Weir", ENTITY)]]


def test_a_longer_suggestion_of_another_page_gives_no_class(corpus: Corpus, tmp_path: Path) -> None:
    item = next(corpus.sentences())
    assert item.mentions is not None
    first, second = item.mentions
    mentions = (replace(first, source="dbpedia", entity="Somebody else"), replace(second, source="dbpedia"))
    rows = SentenceRows()
    rows.add(CorpusSentence(item.sentence, mentions))
    writer = CorpusWriter(tmp_path / "one")
    shard = writer.write_shard(0, rows.table(), pages_table([]))
    one = writer.finish(replace(corpus.manifest, shards=(shard,)))
    build_tagging_corpus(one, tmp_path / "out", PLAIN)
    assert list(_spans(tmp_path / "out").values()) == [[("Ilse Maron", ENTITY), ("The Slow Ferries", "band")]]


def test_a_redirect_is_no_entity_of_its_own(corpus: Corpus, tmp_path: Path) -> None:
    item = next(corpus.sentences())
    assert item.mentions is not None
    one, two = item.mentions  # two links that lead to one page
    rows = SentenceRows()
    rows.add(CorpusSentence(item.sentence, (one, replace(two, entity=one.entity, classes=one.classes))))
    writer = CorpusWriter(tmp_path / "one")
    made = writer.finish(replace(corpus.manifest, shards=(writer.write_shard(0, rows.table(), pages_table([])),)))
    build_tagging_corpus(made, tmp_path / "out", PLAIN)
    assert list(_spans(tmp_path / "out").values()) == [[("Ilse Maron", "singer"), ("The Slow Ferries", "singer")]]
    with pytest.raises(BadInput, match="no class has 2 linked entities"):
        build_tagging_corpus(made, tmp_path / "out", replace(PLAIN, min_entities=2))


def test_scarce_classes_become_entity_by_their_entities_not_mentions(corpus: Corpus, tmp_path: Path) -> None:
    made = build_tagging_corpus(corpus, tmp_path, replace(PLAIN, min_entities=2))
    # two bands and two parties are linked to; every other class has one page, however often it is named
    assert {one.category for one in made.categories} == {ENTITY, "band", "politicalparty"}
    steps = {one.step: one for one in made.steps}
    assert steps["found"].categories > 2 and steps["scarce classes dropped"].categories == 2
    assert steps["found"].sentences == steps["scarce classes dropped"].sentences == 60
    assert steps["scarce classes dropped"].mentions == corpus.manifest.counts.links
    kept = steps["sentences without a class dropped"]
    assert kept.sentences == sum(
        any(CLASSES.get(link.target, ("",))[0] in ("Band", "PoliticalParty") for link in one.sentence.links)
        for one in corpus.sentences()
    )


@pytest.mark.parametrize("frequent", [2, 3])
def test_the_probability_filter_is_the_papers(crowded: Corpus, tmp_path: Path, frequent: int) -> None:
    made = build_tagging_corpus(crowded, tmp_path, replace(PLAIN, frequent=frequent, seed=4))
    expected = set()
    for one in crowded.sentences():
        unknown = len(one.sentence.links) - 1
        # with two frequent categories, ENTITY and Town, sentences with a castle are safe
        is_safe = frequent == 2 and one.sentence.links[0].target.startswith("Fort")
        chance = 0.0 if is_safe or unknown < 3 else {3: 0.3, 4: 0.5}.get(unknown, 0.7)
        if uniform(keys_of([one.sentence.id], seed=4, use="filter"))[0] >= chance:
            expected.add(one.sentence.id)
    assert set(_spans(tmp_path)) == expected
    assert made.steps[-1].sentences == len(expected)
    dropped = Counter(len(one.sentence.links) - 1 for one in crowded.sentences() if one.sentence.id not in expected)
    assert set(dropped) == {3, 4, 5}
    for unknown, chance in ((3, 0.3), (4, 0.5), (5, 0.7)):
        assert abs(dropped[unknown] / 200 - chance) < 0.1


def test_the_filter_does_not_depend_on_shards(crowded: Corpus, tmp_path: Path) -> None:
    again = make_corpus(
        tmp_path,
        [(one.sentence.meta["title"], _marked(one)) for one in crowded.sentences()],
        classes={link.target: names for one in crowded.sentences() for link, names in _classes(one)},
        shard_pages=7,
    )
    build_tagging_corpus(crowded, tmp_path / "a", PLAIN)
    build_tagging_corpus(again, tmp_path / "b", PLAIN)
    assert _spans(tmp_path / "a") == _spans(tmp_path / "b")


def _marked(item: CorpusSentence) -> str:
    text, at = "", 0
    for link in item.sentence.links:
        low, high = item.sentence.char_range(link.start, link.end)
        text += item.sentence.text[at:low] + f"[[{link.target}]]"
        at = high
    return text + item.sentence.text[at:]


def _classes(item: CorpusSentence) -> list[tuple]:
    by_span = {(one.start, one.end): one.classes for one in item.mentions or ()}
    return [(link, by_span[link.start, link.end]) for link in item.sentence.links if (link.start, link.end) in by_span]


def test_balancing_follows_the_power_law(crowded: Corpus, tmp_path: Path) -> None:
    config = replace(PLAIN, balance=True, epoch=20_000, alpha=0.7, frequent=0)
    made = build_tagging_corpus(crowded, tmp_path, config)
    counts = {one.category: one for one in made.categories}
    assert (counts["town"].before, counts["castle"].before) == (1170, 30)
    weight = {name: counts[name].before ** 0.7 for name in ("town", "castle")}
    expected = weight["castle"] / (weight["castle"] + weight["town"])
    share = counts["castle"].after / (counts["castle"].after + counts["town"].after)
    assert abs(share - expected) < 0.01
    assert made.steps[-1].sentences == 20_000 == sum(1 for _ in read_tagged(tmp_path))
    drawn = Counter(span.type for one in read_tagged(tmp_path) for span in one.spans)
    assert drawn == {name: one.after for name, one in counts.items()}
    once = {one.sentence.id for one in read_tagged(tmp_path, repeat=False)}
    assert once == {one.sentence.id for one in read_tagged(tmp_path)}


def test_alpha_one_keeps_the_proportions(crowded: Corpus, tmp_path: Path) -> None:
    config = replace(PLAIN, balance=True, epoch=40_000, alpha=1.0, frequent=0)
    counts = {one.category: one for one in build_tagging_corpus(crowded, tmp_path, config).categories}
    assert abs(counts["castle"].after / counts["town"].after - 30 / 1170) < 0.005


def test_the_same_seed_gives_the_same_bytes(corpus: Corpus, tmp_path: Path) -> None:
    config = TaggingConfig(min_entities=1, seed=3)
    one, two = (build_tagging_corpus(corpus, tmp_path / name, config) for name in ("one", "two"))
    assert one == two
    assert (tmp_path / "one" / "manifest.json").read_bytes() == (tmp_path / "two" / "manifest.json").read_bytes()
    assert build_tagging_corpus(corpus, tmp_path / "one", replace(config, seed=4)).shards != one.shards
    assert TaggingManifest.read(tmp_path / "two") == two


def test_versions_hold_the_same_sentences(corpus: Corpus, tmp_path: Path) -> None:
    made = {
        version: build_tagging_corpus(corpus, tmp_path / version, TaggingConfig(min_entities=1, version=version))
        for version in ("full", "merged", "4types")
    }
    ids = [[one.sentence.id for one in read_tagged(tmp_path / version)] for version in made]
    assert ids[0] == ids[1] == ids[2]
    assert {one.category for one in made["4types"].categories} == {ENTITY, "person", "organisation", "location"}
    merged = {one.category for one in made["merged"].categories}
    assert "musicalartist" in merged and not merged & {"singer", "guitarist", "city"}
    totals = [sum(one.before for one in each.categories) for each in made.values()]
    assert totals[0] == totals[1] == totals[2]


def test_merging_goes_up_by_depth_and_by_size() -> None:
    tree = ClassTree.of(
        {"Person": ["Animal"], "Animal": [], "Artist": ["Person"], "Singer": ["Artist"], "Tenor": ["Singer"]},
        source="invented",
    )
    mentions = {"Tenor": 5, "Singer": 4, "Artist": 100, "Person": 3, "Whatsit": 1}
    assert labels("merged", mentions, tree, depth=2, below=0) == {
        "Tenor": "singer", "Singer": "singer", "Artist": "artist", "Person": "person", "Whatsit": "whatsit"
    }  # fmt: skip
    small = labels("merged", mentions, tree, depth=9, below=6)
    assert small["Tenor"] == "singer" and small["Singer"] == "singer"  # 5 go up, and with 4 they are enough
    assert labels("merged", mentions, tree, depth=9, below=10)["Tenor"] == "artist"
    assert labels("4types", {"Tenor": 1, "Whatsit": 1}, tree, depth=0, below=0) == {
        "Tenor": "person", "Whatsit": ENTITY
    }  # fmt: skip
    assert labels("full", {"Non-ProfitOrganisation": 1}, BUILTIN, depth=0, below=0) == {
        "Non-ProfitOrganisation": "nonprofitorganisation"
    }


def test_figure_is_the_categories_before_and_after(corpus: Corpus, tmp_path: Path) -> None:
    figure = build_tagging_corpus(corpus, tmp_path, TaggingConfig(min_entities=1)).figure
    assert list(figure.before) == sorted(figure.before, reverse=True)
    assert np.isclose(sum(share for share, _ in figure.shares), 1) and np.isclose(sum(b for _, b in figure.shares), 1)
    assert figure.to_csv().splitlines()[0].startswith("category,before,after")
    assert len(figure.to_markdown().splitlines()) == len(figure.categories) + 2


def test_bad_questions_are_refused(corpus: Corpus, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not pre-annotated"):
        build_tagging_corpus(make_corpus(tmp_path / "bare", classes=None), tmp_path / "x")
    with pytest.raises(BadInput, match="no class has 10 linked entities"):
        build_tagging_corpus(corpus, tmp_path / "x")
    build_tagging_corpus(corpus, tmp_path / "x", PLAIN)
    other = make_corpus(tmp_path, [("P", "[[Port Sella]].")], name="other")
    with pytest.raises(Conflict, match="another corpus"):
        build_tagging_corpus(other, tmp_path / "x", PLAIN)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(Conflict, match=r"holds other things \(notes.txt\); give a folder of its own"):
        build_tagging_corpus(other, tmp_path / "full", PLAIN)
    with pytest.raises(StorageError, match="cannot be written to"):
        build_tagging_corpus(other, tmp_path / "full" / "notes.txt", PLAIN)
    for wrong in ({"version": "5types"}, {"alpha": 1.5}, {"epoch": -1}, {"min_entities": -1}):
        with pytest.raises(InvalidConfig):
            TaggingConfig(**wrong)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no entity-tagging corpus"):
        TaggingManifest.read(tmp_path / "absent")
    (tmp_path / "x" / "manifest.json").write_text('{"format": 99}')
    with pytest.raises(BadInput, match="not the manifest of an entity-tagging corpus"):
        TaggingManifest.read(tmp_path / "x")


def test_commands_build_and_draw(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(common, "PLACE", common.Place(home=tmp_path))
    app = typer.Typer()
    corpus_levels.add_to(app)
    out = str(tmp_path / "tagging")
    app(args=["entity-tagging", str(corpus.folder), "-o", out, "--min-entities", "1"], standalone_mode=False)
    assert capsys.readouterr().out.splitlines()[-1].startswith("balanced")
    app(args=["tagging-figure", out, "--format", "csv", "-o", str(tmp_path / "f.csv")], standalone_mode=False)
    app(args=["tagging-figure", out, "--format", "html", "-o", str(tmp_path / "f.html")], standalone_mode=False)
    page = (tmp_path / "f.html").read_text(encoding="utf-8")
    first = (tmp_path / "f.csv").read_text(encoding="utf-8").splitlines()[1].split(",")[0]
    assert f'"{first}"' in page and 'src="http' not in page
    assert (tmp_path / "f.csv").read_text().startswith("category,")


def test_shards_without_sentences_or_mentions_are_no_trouble(tmp_path: Path) -> None:
    empty = make_corpus(tmp_path, [("P", "Nothing is known here."), ("Q", "Nor here.")], classes={}, shard_pages=1)
    with pytest.raises(BadInput, match="No sentence"):
        build_tagging_corpus(empty, tmp_path / "x", PLAIN)
    assert [row.sentences for row in Levels(empty, load_domain("music")).counts()] == [2, 0, 0, 0]
    assert list(Levels(empty, load_domain("music")).texts("integrated", 10)) == []
    writer = CorpusWriter(tmp_path / "some")
    one = make_corpus(tmp_path, [("P", "[[Port Sella]] is a port.")], name="other")
    rows = SentenceRows()
    rows.add(next(one.sentences()))
    shards = (
        writer.write_shard(0, SentenceRows().table(), pages_table([])),
        writer.write_shard(1, rows.table(), pages_table([])),
    )
    some = writer.finish(replace(one.manifest, shards=shards))
    assert [rows for _, rows, _ in build_tagging_corpus(some, tmp_path / "y", PLAIN).shards] == [0, 1]
    assert len(list(read_tagged(tmp_path / "y"))) == 1
