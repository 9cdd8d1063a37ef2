"""What annotator 2 has to confirm, and why; a check that leaves one of these undecided is refused."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from crossner_core.schema import Suggestion, sentence_from_words
from db import annotation_rows
from db.engine import Store
from db.tables import Annotation, AnnotationVersion, Campaign, SentenceRow, SpanRow, Task
from tests.support.builders import Tab, Triple, make_campaign, make_work
from workbench.accounts.actors import SYSTEM, Actor
from workbench.campaigns import campaigns, sentences
from workbench.labelling.confirming import to_confirm
from workbench.suggestions import preannotating

People = dict[str, Actor]
TEXTS = (
    "Mara Vell sang in Oslo .",
    "Mara Vell sang in Bergen .",
    "Mara Vell sang in Turku .",
    "Mara Vell sang in Vaasa .",
)
MARA: Triple = (0, 2, "musicalartist")


@pytest.fixture
def alike(store: Store, people: People) -> int:
    """A campaign of four sentences on one person, which draws nothing at random."""
    campaign_id = make_campaign(store, people, name="Alike", confirm_share=0.0)
    with store.write() as session:
        session.execute(sa.delete(SentenceRow).where(SentenceRow.campaign_id == campaign_id))
    items = [sentence_from_words(text.split(), id=f"alike-{number}") for number, text in enumerate(TEXTS)]
    sentences.add_sentences(store, people["res"], campaign_id, items)
    return campaign_id


def annotated(store: Store, people: People, campaign: int, *spans: list[Triple]) -> Tab:
    """Let annotator 1 submit these spans, a list a sentence; return annotator 2's tab."""
    tab = Tab(store, people["ann1"], campaign, "annotate")
    for marked in spans:
        assert tab.do("submit", tab.items(1)[0], marked).rejections == []
    return Tab(store, people["ann2"], campaign, "check")


def reasons(item: dict[str, Any]) -> dict[Triple, list[str]]:
    """Return why the spans of annotator 1 are to be confirmed."""
    return {(m["start"], m["end"], m["type"]): m["reasons"] for m in item["provenance"] if m["by"] == 1}


def sent(tab: Tab, item: dict[str, Any], origins: dict[Triple, str], **parts: Any) -> str:
    """Submit a check with these spans and origins; return the refusal, empty if there is none."""
    work = make_work({**item, "provenance": ()}, list(origins), **parts)
    work["spans"] = [{**span, "origin": origins[span["start"], span["end"], span["type"]]} for span in work["spans"]]
    rejections = tab.do("submit", item, work=work).rejections
    return rejections[0]["message"] if rejections else ""


def became(store: Store, item: dict[str, Any]) -> list[Any]:
    with store.read() as session:
        query = sa.select(AnnotationVersion).join(Annotation).where(Annotation.task_id == item["task"])
        return session.scalars(query).one().work.get("to_confirm", [])


def test_span_is_new_then_rare_then_known(store: Store, people: People, alike: int) -> None:
    tab = annotated(store, people, alike, *[[MARA]] * 4)
    for expected in (["new here"], ["rare: 1 time"], [], []):
        item = tab.items(1)[0]
        assert reasons(item) == {MARA: expected}
        assert tab.do("submit", item, [MARA]).rejections == []


def test_what_annotator_1_alone_has_marked_makes_no_span_known(store: Store, people: People, alike: int) -> None:
    tab = annotated(store, people, alike, [MARA], [MARA])
    assert [reasons(item) for item in tab.items(2)] == [{MARA: ["new here"]}] * 2


def test_type_that_others_do_not_give_is_doubted(store: Store, people: People, alike: int) -> None:
    odd: Triple = (0, 2, "band")
    tab = annotated(store, people, alike, [MARA], [MARA], [odd])
    assert reasons(tab.items(3)[2]) == {odd: ["new here", "others mark it musical artist"]}


def test_unlikely_suggestion_is_doubted_and_named(store: Store, people: People, alike: int) -> None:
    with store.read() as session:
        first = session.scalars(
            sa.select(SentenceRow.id).where(SentenceRow.campaign_id == alike).order_by(SentenceRow.position)
        ).first()
    assert first is not None
    given = {first: [Suggestion(*MARA, "model:run 3", 0.41)]}
    preannotating.add_model_suggestions(store, SYSTEM, alike, run_id=3, suggestions=given)
    tab = Tab(store, people["ann1"], alike, "annotate")
    item = tab.items(1)[0]
    work = make_work(item, [MARA])
    work["spans"][0]["origin"] = "accepted"
    tab.do("submit", item, work=work)
    (made,) = Tab(store, people["ann2"], alike, "check").items(1)[0]["provenance"]
    assert made["reasons"] == ["new here", "doubted: 41 %"]
    assert (made["by"], made["origin"], made["shown"]) == (1, "accepted", True)
    assert (made["from"]["sources"], made["from"]["score"]) == (["model:run 3"], 0.41)


def test_rule_decides_which_spans_are_confirmed(store: Store, people: People, alike: int) -> None:
    tab = annotated(store, people, alike, *[[MARA]] * 4)
    for _ in range(3):
        tab.do("submit", tab.items(1)[0], [MARA])

    def with_rule(**rule: Any) -> dict[Triple, list[str]]:
        campaigns.update_settings(store, people["adm"], alike, **rule)
        return reasons(tab.items(1)[0])

    assert with_rule(confirm="all") == {MARA: ["every span is"]}
    assert with_rule(confirm="doubted", confirm_share=1.0) == {MARA: ["drawn at random"]}
    assert with_rule(confirm_share=0.0, rare_below=5) == {MARA: ["rare: 3 times"]}
    assert with_rule(confirm="none", confirm_share=1.0) == {MARA: []}


def test_random_share_is_the_same_each_time_and_about_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(_session: Any, _campaign: int, surfaces: set[str], **_: Any) -> dict[tuple[str, str], tuple[int, int]]:
        return {(surface, "band"): (9, 9) for surface in surfaces}

    monkeypatch.setattr("workbench.labelling.confirming.annotation_rows.marked_elsewhere", known)
    rules = Campaign(id=1, confirm="doubted", confirm_share=0.3, rare_below=3, doubt_below=0.5, seed=7)
    first = Annotation(spans=[SpanRow(start=at, end=at + 1, type="band", surface="The") for at in range(10)])
    rows = [SentenceRow(id=number, content_hash=f"{number:016x}") for number in range(100)]
    drawn = [to_confirm(None, rules, row, first, ()) for row in rows]  # type: ignore[arg-type]
    assert drawn == [to_confirm(None, rules, row, first, ()) for row in rows]  # type: ignore[arg-type]
    assert sum(map(len, drawn)) == pytest.approx(300, abs=60)
    assert {len(spans) for spans in drawn} > {1, 2, 3, 4, 5}, "spans are drawn, not sentences"


@pytest.mark.parametrize("origin", ["kept", "new", "accepted"])
def test_check_without_a_confirmation_is_refused_and_says_why(
    store: Store, people: People, alike: int, origin: str
) -> None:
    tab = annotated(store, people, alike, [MARA])
    item = tab.items(1)[0]
    message = sent(tab, item, {MARA: origin})
    assert "Not confirmed yet (1): 'Mara Vell': new here." in message and "Space" in message
    with store.read() as session:
        assert session.scalar(sa.select(Task.state).where(Task.id == item["task"])) == "leased"
    assert sent(tab, item, {MARA: "confirmed"}) == ""


def test_confirmed_changed_and_flagged_spans_are_kept_with_the_version(
    store: Store, people: People, alike: int
) -> None:
    oslo: Triple = (4, 5, "location")
    sang: Triple = (2, 3, "song")
    tab = annotated(store, people, alike, [MARA, sang, oslo])
    item = tab.items(1)[0]
    flag = [{"start": 4, "end": 5, "type": "location", "note": "a country?"}]
    assert sent(tab, item, {MARA: "confirmed", (2, 3, "misc"): "retyped", oslo: "kept"}, flags=flag) == ""
    assert became(store, item) == [
        [0, 2, "musicalartist", ["new here"], "confirmed"],
        [2, 3, "song", ["new here"], "changed"],
        [4, 5, "location", ["new here"], "flagged"],
    ]


def test_draft_keeps_what_is_confirmed_so_far(store: Store, people: People, alike: int) -> None:
    tab = annotated(store, people, alike, [MARA, (4, 5, "location")])
    item = tab.items(1)[0]
    work = make_work({**item, "provenance": ()}, [MARA, (4, 5, "location")])
    work["spans"][0]["origin"] = "confirmed"
    work["spans"][1]["origin"] = "kept"
    assert tab.do("draft", item, work=work).rejections == []
    assert [span["origin"] for span in tab.items(1)[0]["work"]["spans"]] == ["confirmed", "kept"]


def test_blind_check_confirms_nothing_and_shows_nothing(store: Store, people: People, alike: int) -> None:
    tab = annotated(store, people, alike, [MARA])
    with store.write() as session:
        session.execute(sa.update(SentenceRow).values(blind=True))
    item = tab.items(1)[0]
    assert "provenance" not in item
    assert "no span of annotator 1" in sent(tab, item, {MARA: "confirmed"})
    assert sent(tab, item, {MARA: "new"}) == ""


def test_only_a_check_confirms_and_only_spans_of_annotator_1(store: Store, people: People, alike: int) -> None:
    first = Tab(store, people["ann1"], alike, "annotate")
    assert "at the check" in sent(first, first.items(1)[0], {MARA: "confirmed"})
    tab = annotated(store, people, alike, [MARA])
    odd = {(0, 2, "band"): "confirmed"}
    assert "is no span of annotator 1" in sent(tab, tab.items(1)[0], odd)  # type: ignore[arg-type]


def test_expert_sees_how_both_annotators_spans_came_about(store: Store, people: People, alike: int) -> None:
    tab = annotated(store, people, alike, [MARA])
    sent(tab, tab.items(1)[0], {MARA: "confirmed", (4, 5, "location"): "new"})
    made = Tab(store, people["eva"], alike, "adjudicate").items(1)[0]["provenance"]
    assert [(one["by"], one["type"], one["origin"], one["reasons"]) for one in made] == [
        (1, "musicalartist", "new", ["new here"]), (2, "musicalartist", "confirmed", []), (2, "location", "new", []),
    ]  # fmt: skip


def test_of_a_text_that_is_marked_often_the_newest_marks_count(
    store: Store, people: People, alike: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(annotation_rows, "_NEWEST_MARKS", annotation_rows._NEWEST_MARKS.limit(2))
    annotated(store, people, alike, [MARA], [(0, 2, "band")], [(0, 2, "band")])
    with store.read() as session:
        counted = annotation_rows.marked_elsewhere(session, alike, {"Mara Vell"}, but=0)
    assert counted == {("Mara Vell", "band"): (2, 0)}
