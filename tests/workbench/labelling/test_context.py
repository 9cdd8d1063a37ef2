"""What stands around a sentence: where it comes from, its neighbours, and whose marks are shown there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from crossner_core.errors import NotAllowed, NotFound
from crossner_core.schema import sentence_from_words
from db.engine import Store
from tests.support.app_corpora import TEXTS as PAGES
from tests.support.app_corpora import make_corpus
from tests.support.builders import Tab, make_campaign, make_people, make_person
from tests.support.campaigns import LINES, LINES_GOLD, document_campaign
from tests.support.postgres import counted, either_store
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.data import sampling
from workbench.data.sampling import SamplingPlan
from workbench.labelling import context
from workbench.labelling.context import Context

__all__ = ["either_store"]

People = dict[str, Actor]
STATEMENTS = 4
"""For all sentences at once: who it is, the tasks, the neighbours, what is marked there; of a corpus as many."""


def seen(store: Store, tab: Tab, text: str, *, each: int = 1) -> Context:
    """Return what a person sees around one of the sentences handed out to them."""
    item = next(item for item in tab.items(6) if item["text"] == text)
    return context.around(store, tab.actor, tab.campaign_id, tab.stage, [item["task"]], each=each)[item["task"]]


def words(lines: tuple[context.Line, ...]) -> list[str]:
    return [line.text for line in lines]


def marked(lines: tuple[context.Line, ...]) -> list[tuple[str, str]]:
    return [(line.text[mark.start : mark.end], mark.type) for line in lines for mark in line.marks]


def test_a_sentence_of_a_document_has_its_neighbours_in_order(store: Store, people: People) -> None:
    tab = Tab(store, people["ann1"], document_campaign(store, people), "annotate")
    item = tab.items(6)[2]
    assert item["origin"] == {"title": "gulls.txt", "section": "", "link": ""}
    near, wide = (seen(store, tab, LINES[2], each=each) for each in (1, 3))
    assert (words(near.before), words(near.after)) == ([LINES[1]], [LINES[3]])
    assert (words(wide.before), words(wide.after)) == (list(LINES[:2]), list(LINES[3:]))
    assert not any(line.gap for line in (*wide.before, *wide.after)) and not marked(wide.before + wide.after)


def test_a_sentence_that_stands_by_itself_has_no_context(store: Store, people: People) -> None:
    tab = Tab(store, people["ann1"], make_campaign(store, people), "annotate")
    item = tab.items(1)[0]
    assert item["origin"] is None
    assert context.around(store, tab.actor, tab.campaign_id, "annotate", [item["task"]]) == {}


def test_another_document_is_no_context_and_a_missing_sentence_is_a_gap(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    other = sentence_from_words(["Another", "file", "begins", "here", "."], id="other-1", document="other.txt")
    repeated = sentence_from_words(LINES[0].split(), id="other-2", document="other.txt")
    last = sentence_from_words(["It", "ends", "so", "."], id="other-3", document="other.txt")
    rows = [replace(other, offset=0), replace(repeated, offset=27), replace(last, offset=71)]
    assert sentences.add_sentences(store, people["res"], campaign, rows).duplicates == 1
    tab = Tab(store, people["ann1"], campaign, "annotate")
    assert words(seen(store, tab, LINES[5], each=3).after) == []
    for item in tab.items(6):
        tab.do("skip", item, reason="later")
    around = seen(store, tab, other.text, each=10)
    assert (words(around.before), [(line.text, line.gap) for line in around.after]) == ([], [(last.text, True)])


def test_marks_around_a_sentence_are_ones_own_or_gold_and_nobody_elses(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    first = Tab(store, people["ann1"], campaign, "annotate")
    items = first.items(6)
    first.do("submit", items[1], LINES_GOLD[LINES[1]])
    assert marked(seen(store, first, LINES[2]).before) == [("Paper Lanterns", "album")], "one's own"
    first.do("draft", items[3], [(0, 1, "song")])
    assert marked(seen(store, first, LINES[2]).after) == [], "a draft is not submitted"
    second = Tab(store, people["ann2"], campaign, "annotate")
    first.do("submit", items[0], LINES_GOLD[LINES[0]])
    first.do("skip", items[2], reason="hard")
    assert marked(seen(store, second, LINES[2], each=3).before) == [], "of others nothing before it is gold"
    check = Tab(store, people["ann2"], campaign, "check")
    checked = next(item for item in check.items(6) if item["text"] == LINES[1])
    check.do("submit", checked, [(4, 6, "song")])
    expert = Tab(store, people["eva"], campaign, "adjudicate")
    judged = expert.items(1)[0]
    assert marked(seen(store, check, LINES[0]).after) == [("Paper Lanterns", "song")], "one's own check"
    expert.do("submit", judged, [(4, 6, "album")], parts={"decisions": [{"unit": 0, "choice": "first"}]})
    assert marked(seen(store, check, LINES[0]).after) == [("Paper Lanterns", "album")], "gold goes before one's own"
    assert marked(seen(store, second, LINES[2]).before) == [("Paper Lanterns", "album")], "gold is for everybody"


def test_gold_without_entities_hides_what_one_had_marked(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    for name, stage, work in (("ann1", "annotate", [(0, 1, "song")]), ("ann2", "check", [])):
        tab = Tab(store, people[name], campaign, stage)
        tab.do("submit", next(item for item in tab.items(6) if item["text"] == LINES[1]), work)
    expert = Tab(store, people["eva"], campaign, "adjudicate")
    expert.do("submit", expert.items(1)[0], parts={"no_entities": True, "decisions": [{"unit": 0, "choice": "second"}]})
    around = seen(store, Tab(store, people["ann1"], campaign, "annotate"), LINES[2])
    assert words(around.before) == [LINES[1]] and marked(around.before) == []


def test_gold_of_the_test_split_is_not_shown(store: Store, people: People) -> None:
    campaign = document_campaign(store, people, split="test")
    for name, stage in (("ann1", "annotate"), ("ann2", "check"), ("eva", "adjudicate")):
        tab = Tab(store, people[name], campaign, stage)
        items = [item for item in tab.items(6) if item["text"] == LINES[1]]
        choice = {"decisions": [{"unit": 0, "choice": "first"}]} if stage == "adjudicate" else {}
        tab.do("submit", items[0], LINES_GOLD[LINES[1]], parts=choice)
    third = Tab(store, people["ann3"], campaign, "annotate")
    for item in Tab(store, people["ann1"], campaign, "annotate").items(6):
        Tab(store, people["ann1"], campaign, "annotate").do("skip", item, reason="hard")
    assert marked(seen(store, third, LINES[2]).before) == []


def test_only_ones_own_tasks_have_a_context(store: Store, people: People) -> None:
    campaign = document_campaign(store, people)
    theirs = [item["task"] for item in Tab(store, people["ann1"], campaign, "annotate").items(3)]
    assert context.around(store, people["ann2"], campaign, "annotate", theirs) == {}
    assert set(context.around(store, people["ann1"], campaign, "annotate", [*theirs, 99_999])) == set(theirs)
    with pytest.raises(NotAllowed):
        context.around(store, people["ann1"], campaign, "adjudicate", theirs)
    with pytest.raises(NotFound):
        context.around(store, make_person(store, "zoe", "annotator"), campaign, "annotate", theirs)


@pytest.mark.parametrize("each", [1, 10])
def test_context_of_all_sentences_takes_few_statements(either_store: Store, each: int) -> None:
    people = make_people(either_store)
    tab = Tab(either_store, people["ann1"], document_campaign(either_store, people), "annotate")
    first = tab.items(6)[0]
    tab.do("submit", first, LINES_GOLD[LINES[0]])
    tasks = [item["task"] for item in tab.items(6)]
    with counted(either_store) as sent:
        contexts = context.around(either_store, tab.actor, tab.campaign_id, "annotate", tasks, each=each)
    assert set(contexts) == set(tasks) and marked(contexts[tasks[0]].before)
    assert len(sent) <= STATEMENTS, "\n".join(sent)


@pytest.fixture
def sampled(store: Store, people: People, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tab:
    """An annotator of a campaign that has every sentence of a corpus of at least eight tokens, but no other."""
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    make_corpus(tmp_path)
    campaign = document_campaign(store, people)
    plan = SamplingPlan(count=8, min_tokens=10, threshold=1.0, seed=3)
    sampling.sample_into_campaign(store, people["res"], campaign, "tiny", plan)
    tab = Tab(store, people["ann1"], campaign, "annotate")
    for item in tab.items(6):
        tab.do("submit", item, LINES_GOLD.get(item["text"], []))
    return tab


def test_a_sentence_of_a_corpus_has_the_neighbours_of_its_page(store: Store, sampled: Tab) -> None:
    page = [text for title, _, text in PAGES if title == "Jonas Reik"]
    item = next(item for item in sampled.items(6) if item["text"] == page[2])
    assert item["origin"] == {"title": "Jonas Reik", "section": "Works", "link": ""}
    around = seen(store, sampled, page[2], each=3)
    assert (words(around.before), around.after, around.note) == (page[:2], (), "")
    with counted(store) as sent:
        context.around(store, sampled.actor, sampled.campaign_id, "annotate", [item["task"]], each=10)
    assert len(sent) <= STATEMENTS, "\n".join(sent)


def test_marks_of_sampled_neighbours_are_found_on_the_page(store: Store, sampled: Tab) -> None:
    first, second = (text for title, _, text in PAGES[:2])
    item = next(item for item in sampled.items(6) if item["text"] == first)
    sampled.do("submit", item, [(0, 3, "band")])
    assert marked(seen(store, sampled, second).before) == [("The Tin Gulls", "band")]


def test_a_corpus_that_is_gone_is_said(store: Store, sampled: Tab, tmp_path: Path) -> None:
    (tmp_path / "corpora" / "tiny").rename(tmp_path / "corpora" / "other")
    around = seen(store, sampled, PAGES[7][2])
    assert (around.before, around.after) == ((), ())
    assert "'tiny'" in around.note and "not here" in around.note


def test_the_page_of_a_dump_is_linked_as_it_was_read(store: Store, people: People) -> None:
    campaign = make_campaign(store, people)
    rows = [
        sentence_from_words(["It", "is", "here", "."], id="enwiki-12-345-0", meta={"page": 12, "title": "Ada"}),
        sentence_from_words(
            ["It", "is", "there", "."], id="x-2", meta={"title": "Bo", "url": "https://example.org/bo"}
        ),
        sentence_from_words(["It", "is", "gone", "."], id="x-3", meta={"title": "Cy", "url": "javascript:alert(1)"}),
    ]
    sentences.add_sentences(store, people["res"], campaign, rows)
    tab = Tab(store, people["ann1"], campaign, "annotate")
    origins = {item["text"]: item["origin"] for item in tab.items(9) if item["origin"]}
    assert [origins[row.text]["link"] for row in rows] == [
        "https://en.wikipedia.org/w/index.php?oldid=345", "https://example.org/bo", "",
    ]  # fmt: skip
