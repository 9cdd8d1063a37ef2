"""Gazetteers in the workbench: a campaign asks one, people look into one, and what it finds is measured."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from crossner_core.domains import load_domain
from crossner_core.errors import BadInput, InvalidConfig, NotAllowed, NotFound, UnknownType
from db.engine import Store
from tests.support import builders
from tests.support.gazetteers.builders import CONLL, FACTS, make_gazetteer
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import archive, browsing, datasets, exchange
from workbench.data.searching import Search
from workbench.reports import coverage
from workbench.suggestions import gazetteers, preannotating

People = dict[str, Actor]
MUSIC = load_domain("music")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


def suggested(store: Store, people: People, campaign: int, text: str) -> set[tuple[str, str]]:
    line = browsing.browse(store, people["res"], campaign, Search(text=text)).lines[0]
    found = browsing.sentence_layers(store, people["res"], campaign, line.id)
    return {(found.sentence.surface(one.start, one.end), one.type) for one in found.suggestions}


def test_campaign_asks_its_gazetteer_first(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    campaign = builders.make_campaign(store, people, gazetteer="tiny")
    report = preannotating.preannotate(store, people["res"], campaign)
    assert report.problems == () and report.again == 0
    assert {("Mara Vell", "musicalartist"), ("The Tin Gulls", "band")} <= suggested(store, people, campaign, "Oslo")
    assert ("bossa nova", "musicgenre") in suggested(store, people, campaign, "bossa")  # the bundled sample


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_campaign_goes_on_without_a_gazetteer_and_says_so(
    store: Store, people: People, home: Path, damage: str
) -> None:
    if damage == "damaged":
        make_gazetteer(home)
        (home / "gazetteers" / "tiny" / "surfaces.marisa").write_bytes(b"no trie")
    campaign = builders.make_campaign(store, people, gazetteer="tiny")
    report = preannotating.preannotate(store, people["res"], campaign)
    assert "tiny" in report.problems[0] and "workbench gazetteer build" in report.problems[0]
    assert report.sentences == report.again == 6  # tried again when it is there
    assert ("bossa nova", "musicgenre") in suggested(store, people, campaign, "bossa")
    if damage == "missing":
        make_gazetteer(home)
        assert preannotating.preannotate(store, people["res"], campaign).again == 0


def test_import_says_what_is_wrong_with_the_gazetteer(store: Store, people: People) -> None:
    campaign = builders.make_campaign(store, people, gazetteer="gone")
    done = exchange.import_files(store, people["res"], campaign, [("a.txt", b"One more.")])
    assert done.added == 1 and "There is no gazetteer 'gone'" in done.note


def test_campaign_setting_gazetteer_is_checked_and_changed(store: Store, people: People, campaign: int) -> None:
    for bad in ("../x", "a/b", ".hidden", "x" * 61, 7):
        with pytest.raises(InvalidConfig, match="gazetteer"):
            campaigns.update_settings(store, people["adm"], campaign, gazetteer=bad)
    view = campaigns.update_settings(store, people["adm"], campaign, gazetteer=" tiny ", endpoint="http://e")
    assert view.gazetteer == "tiny" and view.sources == ("the gazetteer tiny", "http://e", "the bundled sample")
    assert campaigns.update_settings(store, people["adm"], campaign, gazetteer="").gazetteer is None


def test_archive_keeps_the_gazetteer_and_an_older_one_still_comes_in(store: Store, people: People) -> None:
    campaign = builders.make_campaign(store, people, gazetteer="tiny")
    data = archive.export_campaign(store, people["adm"], campaign)
    again = archive.import_campaign(store, people["adm"], data, name="Again")
    assert campaigns.get_campaign(store, people["adm"], again).gazetteer == "tiny"
    older = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(older, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "campaign.json":
                content = json.dumps({k: v for k, v in json.loads(content).items() if k != "gazetteer"}).encode()
            target.writestr(name, content)
    before = archive.import_campaign(store, people["adm"], older.getvalue(), name="Before")
    assert campaigns.get_campaign(store, people["adm"], before).gazetteer is None


def test_gazetteers_are_listed_with_the_reason_of_a_damaged_one(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    make_gazetteer(home, "old")
    path = home / "gazetteers" / "old" / "manifest.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"version": 1', '"version": 99'), encoding="utf-8")
    old, tiny = gazetteers.list_gazetteers(store, people["ann1"])
    assert "another version" in old.problem and tiny.problem == ""
    assert tiny.counts["entities"] == len(FACTS) and "facts.nt" in tiny.made_from
    with pytest.raises(BadInput):
        gazetteers.look_up(store, people["ann1"], "old", "x", MUSIC)


def test_look_up_gives_candidates_with_type_way_and_path(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    found = gazetteers.look_up(store, people["ann1"], "tiny", "  Low   Tide ", MUSIC)
    assert {(one.entity, one.type) for one in found.candidates} == {
        ("Low Tide (ship)", None),
        ("Low Tide (song)", "song"),
    }
    assert {one.path for one in found.candidates} == {("Ship", "MeanOfTransportation"), ("Song",)}
    assert found.candidates[0].ways == ("without its bracket",)
    singer = gazetteers.look_up(store, people["ann1"], "tiny", "Vell", MUSIC).candidates[0]
    assert (singer.entity, singer.type, singer.ways) == ("Mara Vell", "musicalartist", ("a redirect",))
    inside = gazetteers.look_up(store, people["ann1"], "tiny", "Mara Vell of The Tin Gulls", MUSIC)
    assert inside.candidates == () and inside.inside == ("Mara Vell", "The Tin Gulls")


def test_look_up_in_the_bundled_sample(store: Store, people: People) -> None:
    found = gazetteers.look_up(store, people["ann1"], None, "Cello", MUSIC)
    assert [(one.entity, one.type) for one in found.candidates] == [("Cello", "musicalinstrument")]


@pytest.mark.parametrize("surface", ["", "   ", "x" * 301])
def test_look_up_refuses_no_name_and_a_long_one(store: Store, people: People, surface: str) -> None:
    with pytest.raises(BadInput, match="look up 1 to 300"):
        gazetteers.look_up(store, people["ann1"], None, surface, MUSIC)


@pytest.mark.parametrize("surface", ["\\u0022", "<b>", "\x00", "a\nb", "م", "[["])
def test_look_up_takes_any_text(store: Store, people: People, home: Path, surface: str) -> None:
    make_gazetteer(home)
    for name in (None, "tiny"):
        assert gazetteers.look_up(store, people["ann1"], name, surface, MUSIC).candidates == ()


def test_explain_says_who_won_and_why_the_others_lost(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    sentence = gazetteers.sentence_from_text("[[Mara Vell|She]] sang Low Tide with The Tin Gulls.")
    assert sentence.text == "She sang Low Tide with The Tin Gulls." and len(sentence.links) == 1
    found = gazetteers.explain_sentence(store, people["ann1"], "tiny", sentence, MUSIC)
    won = {one.surface: one for one in found.places if one.won}
    assert {name: one.type for name, one in won.items()} == {
        "She": "musicalartist", "Low Tide": "song", "The Tin Gulls": "band"
    }  # fmt: skip
    ship, song = sorted(won["Low Tide"].candidates, key=lambda one: one.entity)
    assert (ship.won, song.won) == (False, True) and "Low Tide (song) won" in ship.reason
    assert found.paths["tiny", "Low Tide (ship)"] == ("Ship", "MeanOfTransportation")


@pytest.mark.parametrize(
    ("text", "plain", "links"),
    [
        ("[[A]] b", "A b", [(0, 1, "A")]),
        ("a[[B|b]]c", "abc", [(0, 1, "B")]),
        ("x [[A|", "x [[A|", []),
        ("[[A|one]][[B|two]]", "onetwo", [(0, 1, "A")]),
        ("[[A| ]] x", "  x", []),
    ],
)
def test_pasted_links_cover_whole_tokens(text: str, plain: str, links: list[tuple[int, int, str]]) -> None:
    found = gazetteers.sentence_from_text(text)
    assert found.text == plain and [(one.start, one.end, one.target) for one in found.links] == links


def test_explain_refuses_an_empty_sentence_and_a_gazetteer_that_is_gone(store: Store, people: People) -> None:
    with pytest.raises(BadInput):
        gazetteers.explain_sentence(store, people["ann1"], None, gazetteers.sentence_from_text(" "), MUSIC)
    with pytest.raises(NotFound, match="none yet"):
        gazetteers.explain_sentence(store, people["ann1"], "tiny", gazetteers.sentence_from_text("A b."), MUSIC)


def test_classes_without_a_type_are_for_overseers(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    rows = gazetteers.classes_without_type(store, people["eva"], "tiny", MUSIC)
    assert [(row.cls, row.entities) for row in rows] == [("Ship", 1)]
    with pytest.raises(NotAllowed):
        gazetteers.classes_without_type(store, people["ann1"], "tiny", MUSIC)


def test_coverage_of_a_campaign_as_it_stands_and_afresh(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    campaign = builders.make_campaign(store, people)
    builders.make_gold(store, people, campaign)
    stands = coverage.campaign_coverage(store, people["eva"], campaign)
    assert (stands.total, stands.table.overall.suggested) == (6, 0) and stands.table.overall.gold == 12
    afresh = coverage.campaign_coverage_afresh(store, people["eva"], campaign, "tiny")
    band, artist = afresh.table.per_type["band"], afresh.table.per_type["musicalartist"]
    assert (band.gold, band.found, band.correct) == (1, 1, 1) and (artist.gold, artist.correct) == (3, 2)
    assert afresh.table.overall.suggested >= 5
    some = coverage.campaign_coverage_afresh(store, people["eva"], campaign, "tiny", most=2)
    assert (some.table.sentences, some.total) == (2, 6)
    assert coverage.campaign_coverage(store, people["eva"], campaign).table == stands.table  # nothing was written


def test_coverage_of_a_data_set(store: Store, people: People, home: Path) -> None:
    make_gazetteer(home)
    datasets.import_dataset(store, people["res"], name="small", splits={"test": ("t.conll", CONLL)}, domain="music")
    found = coverage.dataset_coverage(store, people["eva"], "small", "test", "tiny")
    assert (found.table.overall.gold, found.table.overall.correct) == (2, 2)
    assert coverage.dataset_coverage(store, people["eva"], "small", "test", None).table.overall.correct == 0
    with pytest.raises(UnknownType, match="choose one that has"):
        coverage.dataset_coverage(store, people["eva"], "small", "test", "tiny", domain="politics")
    for name, split in (("gone", "test"), ("small", "dev")):
        with pytest.raises(NotFound):
            coverage.dataset_coverage(store, people["eva"], name, split, "tiny")


def test_coverage_of_a_data_set_without_a_domain_asks_for_one(store: Store, people: People) -> None:
    datasets.import_dataset(store, people["res"], name="small", splits={"test": ("t.conll", CONLL)})
    with pytest.raises(NotFound, match="names no domain"):
        coverage.dataset_coverage(store, people["eva"], "small", "test", None)


def test_coverage_is_not_for_annotators(store: Store, people: People, campaign: int) -> None:
    for call in (
        lambda who: coverage.campaign_coverage(store, who, campaign),
        lambda who: coverage.campaign_coverage_afresh(store, who, campaign, None),
        lambda who: coverage.dataset_coverage(store, who, "small", "test", None),
    ):
        with pytest.raises(NotAllowed):
            call(people["ann1"])
