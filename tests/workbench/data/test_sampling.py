"""Sentences of a corpus into a campaign: the filters, the draw, near-duplicates, suggestions and provenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.domains import load_domain, parse_domain
from crossner_core.errors import BadInput, InvalidConfig, NotAllowed, NotFound
from crossner_core.near_duplicates import NearDuplicates
from crossner_core.schema import sentence_from_words
from db.engine import Store
from tests.support import builders
from tests.support.app_corpora import KNOWN, TEXTS, make_corpus
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.cli import main
from workbench.data import browsing, sampling
from workbench.data.sampling import SamplingPlan
from workbench.data.searching import Search

People = dict[str, Actor]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    return tmp_path


def empty_campaign(store: Store, people: People, **settings: object) -> int:
    return campaigns.create_campaign(
        store, people["adm"], name="Sampled", domain=load_domain("music"), control_share=0.0, **settings
    )  # type: ignore[arg-type]


def texts(store: Store, people: People, campaign: int) -> list[str]:
    return [line.text for line in browsing.browse(store, people["res"], campaign).lines]


def drawn(store: Store, people: People, campaign: int, **fields: object) -> set[str]:
    """Return the texts that a plan with these fields would add."""
    plan = SamplingPlan(**{"min_tokens": 1, "threshold": 1.0, **fields})  # type: ignore[arg-type]
    return {one.sentence.text for one in sampling.preview(store, people["res"], campaign, "tiny", plan).first}


def test_sampling_adds_sentences_with_links_suggestions_and_origin(store: Store, people: People, home: Path) -> None:
    corpus, campaign = make_corpus(home), empty_campaign(store, people)
    report = sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(count=3, min_links=2))
    assert (report.added, report.total, report.considered) == (2, 8, 8)
    assert report.left_out["length"] == 1 and report.left_out["links"] == 4 and report.repeated["nearly the same"] == 1
    line = browsing.browse(store, people["res"], campaign, Search(text="Mara Vell")).lines[0]
    found = browsing.sentence_layers(store, people["res"], campaign, line.id)
    assert {one.target for one in found.sentence.links} == {"Mara Vell", "The Tin Gulls"}
    assert {(one.entity, one.type) for one in found.suggestions} == {
        ("http://dbpedia.org/resource/Mara_Vell", "musicalartist"),
        ("http://dbpedia.org/resource/The_Tin_Gulls", "band"),
    }
    assert found.preannotated and found.sentence.id == "tinywiki-2-102-300"
    assert found.meta == {
        "page": 2, "revision": 102, "title": "Mara Vell", "section": "", "paragraph": 3, "offset": 300,
        "corpus": "tiny", "corpus_hash": corpus.manifest.hash,
    }  # fmt: skip


def test_sampling_leaves_out_mentions_without_a_type(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    report = sampling.sample_into_campaign(
        store, people["res"], campaign, "tiny", SamplingPlan(text="boathouse", threshold=0.5)
    )
    assert report.added == 1 and report.suggestions == 2
    assert KNOWN["Harrow Bay"][1] is None


def test_sampling_is_decided_by_the_seed(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    draws = [frozenset(drawn(store, people, campaign, count=3, seed=seed)) for seed in (1, 1, 2, 3, 4)]
    assert draws[0] == draws[1] and len(set(draws)) > 1 and all(len(one) == 3 for one in draws)


def test_sampling_draws_more_for_the_same_seed_as_a_superset(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    few, many = (drawn(store, people, campaign, count=count, seed=5) for count in (2, 5))
    assert few < many


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"max_tokens": 4}, {6}),
        ({"min_tokens": 14}, {3, 7}),
        ({"min_links": 3}, {0, 1}),
        ({"types": ("band",)}, {0, 1, 3}),
        ({"types": ("country", "album")}, {0, 1, 4, 7}),
        ({"min_mentions": 2}, {0, 1, 3}),
        ({"title": "vell"}, {3, 4}),
        ({"section": "WORKS"}, {6, 7}),
        ({"text": "norway"}, {4, 7}),
        ({"text": "norway", "section": "career"}, {4}),
    ],
)
def test_sampling_filters(
    store: Store, people: People, home: Path, fields: dict[str, object], expected: set[int]
) -> None:
    make_corpus(home)
    found = drawn(store, people, empty_campaign(store, people), **fields)
    low = {text.rstrip(".!") for text in found}  # of the two that differ in their last token one is drawn, or both
    assert low == {TEXTS[at][2].rstrip(".!") for at in expected}


def test_sampling_takes_so_many_from_one_page(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    report = sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(per_page=1))
    assert report.added == 3 and report.repeated["enough of that page"] == 4


def test_sampling_leaves_out_what_the_campaign_has_or_nearly_has(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    words = TEXTS[3][2].replace("Oslo.", "Bergen .").split()
    sentences.add_sentences(store, people["res"], campaign, [sentence_from_words(words, id="own")])
    plan = SamplingPlan(title="mara vell", threshold=0.7)
    report = sampling.sample_into_campaign(store, people["res"], campaign, "tiny", plan)
    assert report.added == 1 and report.repeated["nearly the same"] == 1
    again = sampling.sample_into_campaign(store, people["res"], campaign, "tiny", plan)
    assert again.added == 0 and again.repeated == {"there already": 1, "nearly the same": 1, "enough of that page": 0}


def test_sampling_goes_to_a_split(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(count=2, split="dev"))
    assert campaigns.get_campaign(store, people["res"], campaign).splits == {"pool": 0, "dev": 2, "test": 0}


def test_sampling_pre_annotates_as_usual_without_mentions(store: Store, people: People, home: Path) -> None:
    make_corpus(home, mentions=False)
    campaign = empty_campaign(store, people)
    report = sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(text="bossa nova"))
    line = browsing.browse(store, people["res"], campaign).lines[0]
    found = browsing.sentence_layers(store, people["res"], campaign, line.id)
    assert report.suggestions == 0 and found.preannotated
    assert [one.type for one in found.suggestions] == ["musicgenre"]


def test_sampling_with_another_domain_asks_the_campaigns_own(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    trains = parse_domain('name = "trains"\n[[types]]\nname = "engine"\n', origin="test")
    campaign = campaigns.create_campaign(store, people["adm"], name="Trains", domain=trains)
    report = sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(count=2))
    assert (report.added, report.suggestions) == (2, 0)


def test_sampling_without_suggestions_brings_none(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people, suggestions_on=False)
    assert sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(count=2)).suggestions == 0
    assert all(not line.suggestions for line in browsing.browse(store, people["res"], campaign).lines)


def test_sampling_adds_all_or_nothing(
    store: Store, people: People, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    monkeypatch.setattr(sampling, "_add_mentions", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(count=2))
    assert campaigns.get_campaign(store, people["res"], campaign).sentences == 0


def test_sampling_preview_adds_nothing_and_tells_what_it_would(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    plan = SamplingPlan(count=4, seed=3)
    shown = sampling.preview(store, people["res"], campaign, "tiny", plan)
    assert campaigns.get_campaign(store, people["res"], campaign).sentences == 0
    assert shown.report.added == 4 and shown.report.complete
    sampling.sample_into_campaign(store, people["res"], campaign, "tiny", plan)
    assert texts(store, people, campaign) == [one.sentence.text for one in shown.first]


def test_sampling_preview_of_a_large_corpus_says_that_it_stopped(
    store: Store, people: People, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    monkeypatch.setattr(sampling, "PREVIEW_TRIES", 2)
    shown = sampling.preview(store, people["res"], campaign, "tiny", SamplingPlan(count=7))
    assert not shown.report.complete and shown.report.added <= 2


@pytest.mark.parametrize("who", ["ann1", "eva"])
def test_sampling_is_for_researchers(store: Store, people: People, home: Path, who: str) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people)
    for call in (sampling.sample_into_campaign, sampling.preview):
        with pytest.raises(NotAllowed):
            call(store, people[who], campaign, "tiny", SamplingPlan())


def test_sampling_refuses_what_cannot_be(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    make_corpus(home, "plain", mentions=False)
    campaign, res = empty_campaign(store, people), people["res"]
    with pytest.raises(InvalidConfig, match="count is 0"):
        SamplingPlan(count=0)
    with pytest.raises(InvalidConfig, match="above max_tokens"):
        SamplingPlan(min_tokens=9, max_tokens=8)
    with pytest.raises(InvalidConfig, match="no split 'train'"):
        SamplingPlan(split="train")
    with pytest.raises(InvalidConfig, match="no entity type 'pilot'"):
        sampling.preview(store, res, campaign, "tiny", SamplingPlan(types=("pilot",)))
    with pytest.raises(BadInput, match="no typed mentions"):
        sampling.preview(store, res, campaign, "plain", SamplingPlan(types=("band",)))
    with pytest.raises(NotFound, match="there are: plain, tiny"):
        sampling.preview(store, res, campaign, "../tiny", SamplingPlan())


def test_near_duplicates_agree_with_the_jaccard_index() -> None:
    words = [f"w{number}" for number in range(20)]
    kept = NearDuplicates(0.8)
    kept.add(sentence_from_words(words, id="a"))
    # 18 triples; the last word changed leaves 17 of 19 in common, one in the middle 15 of 21
    assert not kept.add_if_new(sentence_from_words([*words[:-1], "x"], id="b"))
    assert not kept.add_if_new(sentence_from_words([word.upper() for word in words], id="c"))
    assert kept.add_if_new(sentence_from_words([*words[:9], "x", *words[10:]], id="d"))
    assert kept.add_if_new(sentence_from_words(["w0", "w1"], id="e"))
    assert not kept.add_if_new(sentence_from_words(["w0", "W1"], id="f"))


def test_sampled_sentences_are_handed_out_with_links_and_suggestions(store: Store, people: People, home: Path) -> None:
    make_corpus(home)
    campaign = empty_campaign(store, people, member_ids=[people["ann1"].id])
    sampling.sample_into_campaign(store, people["res"], campaign, "tiny", SamplingPlan(text="Mara Vell"))
    item = builders.Tab(store, people["ann1"], campaign, "annotate").items(1)[0]
    assert {one["target"] for one in item["links"]} == {"Mara Vell", "The Tin Gulls"}
    assert {one["type"] for one in item["suggestions"]} == {"musicalartist", "band"}


def test_cli_samples_previews_and_makes_a_campaign_with_a_gazetteer(
    store: Store, people: People, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CROSSNER_DATABASE_URL", store.url.render_as_string(hide_password=False))
    make_corpus(home)
    assert main(["campaign", "create", "Sampled", "--domain", "music", "--gazetteer", "tiny"]) == 0
    assert main(["campaign", "show", "Sampled"]) == 0
    assert "from the gazetteer tiny, the bundled sample" in capsys.readouterr().out
    asked = ["corpus", "sample", "tiny", "--campaign", "Sampled", "--count", "2", "--type", "band", "--likeness", "0.5"]
    assert main([*asked, "--preview"]) == 0
    assert "Nothing was added. It would be: 2 sentences added" in capsys.readouterr().out
    assert main(asked) == 0
    said = capsys.readouterr().out
    assert "2 sentences added; 8 considered" in said and "4 suggestions came along" in said
    assert main(["corpus", "sample", "gone", "--campaign", "Sampled"]) == 2
    assert "There is no corpus 'gone'; there are: tiny" in capsys.readouterr().err
