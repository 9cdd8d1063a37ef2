"""What a submit does with suggestions that nobody decided: the editor says it, else the campaign's rule does."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.schema import Span, Suggestion
from db.engine import Store
from db.tables import Annotation, AnnotationVersion, SentenceRow
from tests.support.builders import Tab
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns
from workbench.data import browsing
from workbench.suggestions import preannotating

People = dict[str, Actor]
SURE, LOW = (4, 7, "band", 0.9), (0, 2, "musicalartist", 0.6)


@pytest.fixture
def tab(store: Store, people: People, campaign: int) -> Tab:
    """A tab whose first sentence shows two suggestions, one of them below the floor of *Accept all*."""
    given = [Suggestion(start, end, kind, "model:run 3", score) for start, end, kind, score in (SURE, LOW)]
    campaigns.update_settings(store, people["adm"], campaign, control_share=0)
    with store.read() as session:
        first = session.scalars(sa.select(SentenceRow.id).order_by(SentenceRow.position)).first()
    assert first is not None
    preannotating.add_model_suggestions(store, SYSTEM, campaign, run_id=3, suggestions={first: given})
    return Tab(store, people["ann1"], campaign, "annotate")


def submitted(store: Store, tab: Tab, spans: list[tuple[int, int, str]], **changes: Any) -> dict[str, Any]:
    """Submit the first sentence; return the version that was kept."""
    item = tab.items()[0]
    assert len(item["suggestions"]) == 2
    applied = tab.do("submit", item, spans, **changes)
    assert applied.rejections == []
    with store.read() as session:
        query = sa.select(AnnotationVersion).join(Annotation).where(Annotation.task_id == item["task"])
        return dict(session.scalars(query).one().work)


def places(marks: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
    return [(mark["start"], mark["end"], mark["type"]) for mark in marks]


def test_submit_of_an_older_editor_keeps_what_it_left_open(store: Store, tab: Tab) -> None:
    kept = submitted(store, tab, [SURE[:3]])
    assert (places(kept["spans"]), kept["rejected"], kept["left_open"]) == ([SURE[:3]], [], [list(LOW[:3])])


def test_layers_of_a_sentence_say_what_was_left_open(store: Store, people: People, campaign: int, tab: Tab) -> None:
    sentence = tab.items()[0]["sentence"]
    submitted(store, tab, [SURE[:3]])
    (work,) = browsing.sentence_layers(store, people["res"], campaign, sentence).work
    assert (work.left_open, work.opened) == ((Span(*LOW[:3]),), "")


def test_layers_of_a_sentence_say_what_was_done_with_open_suggestions(
    store: Store, people: People, campaign: int, tab: Tab
) -> None:
    sentence = tab.items()[0]["sentence"]
    submitted(store, tab, [SURE[:3]], opened="refuse")
    (work,) = browsing.sentence_layers(store, people["res"], campaign, sentence).work
    assert (work.left_open, work.opened) == ((), "refuse")


def test_submit_that_says_what_it_did_is_taken_at_its_word(store: Store, tab: Tab) -> None:
    kept = submitted(store, tab, [SURE[:3]], opened="refuse")
    assert kept["opened"] == "refuse" and "left_open" not in kept and kept["rejected"] == []


def test_rule_accept_takes_what_reaches_the_floor(store: Store, people: People, campaign: int, tab: Tab) -> None:
    campaigns.update_settings(store, people["adm"], campaign, open_at_submit="accept")
    kept = submitted(store, tab, [(8, 9, "misc")])
    assert places(kept["spans"]) == [SURE[:3], (8, 9, "misc")]
    assert (kept["opened"], kept["left_open"]) == ("accept", [list(LOW[:3])])


def test_rule_refuse_rejects_each_source(store: Store, people: People, campaign: int, tab: Tab) -> None:
    campaigns.update_settings(store, people["adm"], campaign, open_at_submit="refuse")
    kept = submitted(store, tab, [SURE[:3]])
    assert (places(kept["rejected"]), kept["opened"]) == ([LOW[:3]], "refuse")


def test_controls_have_nothing_open(store: Store, people: People, campaign: int, tab: Tab) -> None:
    item = tab.items()[0]
    with store.write() as session:
        session.execute(sa.update(SentenceRow).where(SentenceRow.id == item["sentence"]).values(control=True))
    tab.do("submit", item, [SURE[:3]])
    with store.read() as session:
        assert "left_open" not in session.scalars(sa.select(AnnotationVersion)).one().work


def test_unknown_word_for_open_suggestions_is_refused(tab: Tab) -> None:
    (refused,) = tab.do("submit", tab.items()[0], [SURE[:3]], opened="dropped").rejections
    assert refused["reason"] == "invalid" and "allowed are" in refused["message"]


def test_conflict_says_where_the_other_version_was_saved(store: Store, people: People, campaign: int, tab: Tab) -> None:
    item = tab.items()[0]
    tab.do("draft", item, [SURE[:3]])
    other = Tab(store, people["ann1"], campaign, "annotate")
    (refused,) = other.do("draft", item, [LOW[:3]]).rejections
    assert refused["item"]["saved"]["where"] == "another tab or browser"
    assert refused["item"]["saved"]["at"].endswith("+00:00")
