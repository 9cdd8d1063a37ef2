"""Spans linked to resources: offered, saved, checked, adjudicated and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from crossner_core.errors import Conflict, InvalidSpan, NotAllowed, NotFound
from crossner_core.formats import make_document, read_files, write_files
from crossner_core.formats.base import NamedFile, Record, Written
from crossner_core.schema import NIL, Span, sentence_from_words
from db import layer_rows
from db.engine import Store
from tests.support.builders import Tab, make_campaign, make_work
from tests.support.campaigns import document_campaign
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.data import archive, documents
from workbench.http.api.routes.sentences import marked
from workbench.labelling import guidelines, linking, whole_documents
from workbench.reports import linking as report

People = dict[str, Actor]
QUEEN, OTHER = "http://dbpedia.org/resource/Queen_(band)", "http://www.wikidata.org/entity/Q42"


def linked(item: Mapping[str, Any], *entities: str | None, **parts: Any) -> dict[str, Any]:
    """Return the work of an item's first tokens, one span each, linked to these."""
    work = make_work(item, [(place, place + 1, "band") for place in range(len(entities))], **parts)
    for span, entity in zip(work["spans"], entities, strict=True):
        span["entity"] = entity
    return work


def send(tab: Tab, item: Mapping[str, Any], work: Mapping[str, Any]) -> list[dict[str, Any]]:
    return tab.send(tab.event("submit", item, work=work)).rejections


def to_adjudication(store: Store, people: People, first: str | None, second: str | None) -> tuple[Tab, dict[str, Any]]:
    """Annotate and check one sentence, linked to these; return the expert's tab and item."""
    campaign = make_campaign(store, people, linking=True, confirm="none")
    for name, stage, entity in (("ann1", "annotate", first), ("ann2", "check", second)):
        tab = Tab(store, people[name], campaign, stage)
        item = tab.items(1)[0]
        assert send(tab, item, linked(item, entity)) == []
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    return tab, tab.items(1)[0]


def test_links_are_saved_and_come_back(store: Store, people: People) -> None:
    tab = Tab(store, people["ann1"], make_campaign(store, people, linking=True), "annotate")
    item = tab.items(1)[0]
    assert tab.send(tab.event("draft", item, work=linked(item, QUEEN, NIL, None))).rejections == []
    assert [span["entity"] for span in tab.items(1)[0]["work"]["spans"]] == [QUEEN, NIL, None]


@pytest.mark.parametrize("entity", ["Queen", "javascript:alert(1)", "", 7, "http://a\x00b"])
def test_what_is_no_resource_is_refused(store: Store, people: People, entity: Any) -> None:
    tab = Tab(store, people["ann1"], make_campaign(store, people, linking=True), "annotate")
    item = tab.items(1)[0]
    (refused,) = send(tab, item, linked(item, entity))
    assert refused["reason"] == "invalid" and "entity" in refused["message"]


def test_the_check_begins_with_the_links_of_annotator_1(store: Store, people: People) -> None:
    campaign = make_campaign(store, people, linking=True)
    tab = Tab(store, people["ann1"], campaign, "annotate")
    item = tab.items(1)[0]
    assert send(tab, item, linked(item, QUEEN)) == []
    check = Tab(store, people["ann2"], campaign, "check").items(1)[0]
    assert check["first"] == [{"start": 0, "end": 1, "type": "band", "entity": QUEEN}]


def test_different_links_are_a_unit_of_their_own(store: Store, people: People) -> None:
    tab, item = to_adjudication(store, people, QUEEN, OTHER)
    (unit,) = item["units"]
    assert (unit["kind"], unit["first"]["entity"], unit["second"]["entity"]) == ("entity", QUEEN, OTHER)
    wrong = linked(item, OTHER, decisions=[{"unit": 0, "choice": "first"}])
    (refused,) = send(tab, item, wrong)
    assert "do not match" in refused["message"]
    assert send(tab, item, linked(item, OTHER, decisions=[{"unit": 0, "choice": "second"}], comment="Q42")) == []
    with store.read() as session:
        gold = [work.spans for _, work in layer_rows.submitted(session, tab.campaign_id, "adjudicate")]
    assert [[span.entity for span in spans] for spans in gold] == [[OTHER]]
    (hard,) = guidelines.guidelines(store, people["ann1"], tab.campaign_id, version="").decisions
    word, settled = item["text"].split()[0], hard.settled[0]
    assert (settled.kind, settled.first) == ("entity", f"{word} (band, Queen (band))")
    assert settled.second == settled.gold == f"{word} (band, Q42)"


def test_an_expert_may_link_otherwise_and_agreement_on_a_link_is_agreement(store: Store, people: People) -> None:
    tab, item = to_adjudication(store, people, QUEEN, QUEEN)
    assert [unit["kind"] for unit in item["units"]] == ["agree"]
    assert send(tab, item, linked(item, NIL, decisions=[{"unit": 0, "choice": "first"}]))
    assert send(tab, item, linked(item, NIL, decisions=[{"unit": 0, "choice": "other"}])) == []


def test_an_archive_carries_links_and_decisions_about_them(store: Store, people: People) -> None:
    tab, item = to_adjudication(store, people, QUEEN, None)
    assert send(tab, item, linked(item, QUEEN, decisions=[{"unit": 0, "choice": "first"}])) == []
    made = archive.export_campaign(store, people["adm"], tab.campaign_id)
    again = archive.import_campaign(store, people["adm"], made, name="Again")
    with store.read() as session:
        rows = [work for _, work in layer_rows.submitted(session, again, "adjudicate")]
    assert [(span.entity, [d.first for d in work.decisions]) for work in rows for span in work.spans] == [
        (QUEEN, [[0, 1, "band", QUEEN]])
    ]
    assert campaigns.get_campaign(store, people["adm"], again).linking


class TestCandidates:
    """What the editor offers."""

    def ask(self, tab: Tab, item: Mapping[str, Any], start: int = 0, end: int = 1, **more: Any) -> list[str]:
        offered = linking.candidates(
            tab.store, tab.actor, tab.campaign_id, tab.stage, item["task"], start=start, end=end, **more
        )
        return [candidate.address for candidate in offered]

    def test_own_links_elsewhere_are_offered_and_others_open_work_is_not(self, store: Store, people: People) -> None:
        campaign = make_campaign(store, people, linking=True)
        mine, theirs = (Tab(store, people[name], campaign, "annotate") for name in ("ann1", "ann3"))
        first, second = mine.items(2)
        (other,) = theirs.items(1)
        work = make_work(first, [(len(first["tokens"]) - 1, len(first["tokens"]), "band")])
        work["spans"][0]["entity"] = OTHER
        assert send(mine, first, work) == []
        last = [len(item["tokens"]) - 1 for item in (second, other)]
        assert [item["text"][-1] for item in (first, second, other)] == ["."] * 3
        assert self.ask(mine, second, last[0], last[0] + 1) == [OTHER]
        assert self.ask(theirs, other, last[1], last[1] + 1) == []

    def test_they_are_for_ones_own_tasks_in_campaigns_that_link(self, store: Store, people: People) -> None:
        campaign = make_campaign(store, people, linking=True)
        tab = Tab(store, people["ann1"], campaign, "annotate")
        item = tab.items(1)[0]
        with pytest.raises(InvalidSpan, match="outside"):
            self.ask(tab, item, 0, 99)
        with pytest.raises(NotFound, match="of yours"):
            self.ask(Tab(store, people["ann3"], campaign, "annotate"), item)
        with pytest.raises(NotAllowed):
            self.ask(Tab(store, people["res"], campaign, "annotate"), item)
        campaigns.update_settings(store, people["adm"], campaign, linking=False)
        with pytest.raises(Conflict, match="does not link"):
            self.ask(tab, item)


def test_the_report_counts_links_agreement_and_how_good_candidates_are(store: Store, people: People) -> None:
    campaign = make_campaign(store, people, linking=True, confirm="none", blind_share=1.0)
    chosen = ((QUEEN, QUEEN), (QUEEN, NIL), (None, None))
    for place, (name, stage) in enumerate((("ann1", "annotate"), ("ann2", "check"))):
        tab = Tab(store, people[name], campaign, stage)
        for item, both in zip(tab.items(3), chosen, strict=True):
            assert send(tab, item, linked(item, both[place])) == []
    tab = Tab(store, people["eva"], campaign, "adjudicate")
    for item in tab.items(3):
        entity = item["units"][0]["first"]["entity"]
        assert send(tab, item, linked(item, entity, decisions=[{"unit": 0, "choice": "first"}])) == []
    state = report.linking(store, people["res"], campaign)
    assert state == report.Linking(spans=3, linked=2, nil=0, compared=2, agreed=1, asked=2, first=0, offered=0)
    campaigns.update_settings(store, people["adm"], campaign, linking=False)
    assert report.linking(store, people["res"], campaign) is None
    with pytest.raises(NotAllowed):
        report.linking(store, people["ann1"], campaign)


def as_cas(records: Sequence[Record]) -> tuple[NamedFile, ...]:
    return write_files([make_document("gulls.txt", records, "cas-json")], "cas-json").files


def links_in(written: Written) -> list[str | None]:
    (document,) = read_files(written.files, format="cas-json")
    return [span.entity for span in document.sentences[0].spans or ()]


def test_a_document_of_another_tool_brings_its_links(store: Store, people: People) -> None:
    keeper = (store, people["res"], document_campaign(store, people, linking=True, confirm="none"))
    (view,) = documents.list_documents(*keeper)
    (parsed,) = read_files(documents.document_file(*keeper, view.id, format="cas-json").files, format="cas-json")
    first, *rest = (record.sentence for record in parsed.sentences)
    bare = (Span(0, 2, "musicalartist"), Span(4, 7, "band"))
    linked_ = (replace(bare[0], entity=OTHER), replace(bare[1], entity=NIL))
    own, others = (store, people["ann1"], keeper[2], view.id), [Record(sentence, ()) for sentence in rest]
    for spans in (bare, linked_):  # the second time nothing but the links differs
        files = as_cas([Record(first, spans), *others])
        whole_documents.work_on_document(*own, files, format="cas-json", is_complete=True)
    assert links_in(documents.work_file(*own, "ann1", format="cas-json")) == [OTHER, NIL]
    fresh = (store, people["res"], document_campaign(store, people, name="Fresh"))
    (view,) = documents.list_documents(*fresh)
    documents.give_gold(*fresh, view.id, as_cas([Record(first, linked_), *others]), format="cas-json")
    assert links_in(documents.layer_file(*fresh, view.id, "gold", format="cas-json")) == [OTHER, NIL]


def test_the_api_says_what_spans_are_linked_to() -> None:
    sentence = sentence_from_words(["Queen", "sang"], id="1")
    spans = [Span(0, 1, "band", QUEEN), Span(1, 2, "band")]
    assert [span.entity for span in marked(sentence, spans)] == [QUEEN, None]
