"""The campaign page's figures, counted by hand on six sentences."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from crossner_core.schema import Span, Suggestion
from db.engine import Store
from db.tables import SentenceRow, SuggestionRow
from db.types import now
from tests.support.builders import Tab, make_campaign, make_gold
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns
from workbench.reports.figures import Material, acceptance, four_figures, outcome
from workbench.reports.overview import Looked, overview

People = dict[str, Actor]


def _suggest(store: Store, campaign: int) -> None:
    """Suggest, in the first sentence, a right band, a wrong type, a wrong boundary and a wrong word."""
    with store.write() as session:
        rows = list(session.scalars(sa.select(SentenceRow).where(SentenceRow.campaign_id == campaign)))
        for row in rows:
            row.preannotated_at = now()
        for start, end, kind in ((0, 2, "person"), (3, 4, "song"), (4, 7, "band"), (7, 9, "location")):
            session.add(
                SuggestionRow(sentence_id=rows[0].id, start=start, end=end, type=kind, source="dbpedia", score=0.5)
            )


def test_overview_of_an_empty_campaign_says_why_in_words(store: Store, people: People, campaign: int) -> None:
    found = overview(store, people["res"], campaign)
    assert [figure.value for figure in found.figures] == [None] * 4
    assert all(figure.reason and figure.definition for figure in found.figures)
    assert [figure.paper for figure in found.figures] == [0.6364, 0.7333, 0.0859, 0.0857]
    assert found.blind.coverage is None and all(m.value is None and m.undefined for m in found.blind.agreement.measures)
    assert found.effort[0].seconds_per_sentence is None and found.people == () and found.acceptance == ()


def test_overview_counts_the_four_figures(store: Store, people: People, campaign: int) -> None:
    _suggest(store, campaign)
    one = Tab(store, people["ann1"], campaign, "annotate")
    rejected = [{"start": 3, "end": 4, "type": "song", "source": "dbpedia"}]
    item = one.items(1)[0]
    one.do("submit", item, [(0, 2, "musicalartist"), (4, 7, "band"), (8, 9, "location")], parts={"rejected": rejected})
    one.submit_all()
    two = Tab(store, people["ann2"], campaign, "check")
    flags = {"flags": [{"start": 4, "end": 7, "type": "band", "note": ""}]}
    first = two.items(1)[0]
    two.do("submit", first, [(0, 2, "musicalartist"), (4, 7, "organisation"), (8, 9, "location")], parts=flags)
    two.submit_all()
    Tab(store, people["eva"], campaign, "adjudicate").submit_all()
    found = overview(store, people["eva"], campaign)
    preannotated, corrected, flagged, changed = found.figures
    assert (preannotated.numerator, preannotated.denominator) == (4, 8)
    # Three suggestions of the first sentence were put right; the nine entities of the others were added.
    assert (corrected.numerator, corrected.denominator) == (12, 8)
    assert (flagged.numerator, flagged.denominator) == (1, 12)
    assert (changed.numerator, changed.denominator) == (1, 12) and changed.value == pytest.approx(1 / 12)
    outcomes = {row.type: (row.accepted, row.retyped, row.moved, row.deleted, row.ignored) for row in found.acceptance}
    assert outcomes == {
        "band": (1, 0, 0, 0, 0), "person": (0, 1, 0, 0, 0), "location": (0, 0, 1, 0, 0), "song": (0, 0, 0, 1, 0),
    }  # fmt: skip
    # The rule wants eleven spans confirmed, all new; the twelfth was changed, which is a flag, too.
    assert found.looked == Looked(spans=12, confirmed=11, changed=1, flagged=0) and found.looked.left == 0
    ann1 = next(row for row in found.people if row.user_id == people["ann1"].id)
    assert (ann1.annotated, ann1.entities, ann1.judged, ann1.kept, ann1.keystrokes) == (6, 12, 12, 12, 30)
    assert (found.stages[2].done, found.stages[1].waiting, found.imported_gold) == (6, 0, 0)


def test_overview_measures_blind_agreement_and_leaves_blind_out_of_the_checks(store: Store, people: People) -> None:
    campaign = make_campaign(store, people, name="Blind", blind_share=1.0)
    make_gold(store, people, campaign)
    found = overview(store, people["res"], campaign)
    assert (found.blind.sentences, found.blind.checked, found.blind.coverage) == (6, 6, 1.0)
    assert found.blind.agreement.entity_f1.value == 1.0
    assert [figure.value for figure in found.figures[2:]] == [None, None]


def test_overview_splits_effort_by_suggestions(store: Store, people: People, campaign: int) -> None:
    tab = Tab(store, people["ann1"], campaign, "annotate")
    tab.do("submit", tab.items(1)[0], [(4, 7, "band"), (8, 9, "location")], active_ms=8000, keystrokes=6)
    campaigns.update_settings(store, people["adm"], campaign, control_share=1.0)
    other = Tab(store, people["ann2"], campaign, "annotate")
    other.do("submit", other.items(1)[0], active_ms=3000, keystrokes=2)
    shown, control, _, _ = overview(store, people["adm"], campaign).effort
    assert (shown.sentences, shown.seconds_per_sentence, shown.seconds_per_entity) == (1, 8.0, 4.0)
    assert (control.suggestions, control.sentences, control.keystrokes_per_sentence) == ("control", 1, 2.0)
    assert control.keystrokes_per_entity is None


def test_figures_pass_over_models_and_controls() -> None:
    model, link = Suggestion(0, 1, "band", "model:x", 0.9), Suggestion(1, 2, "song", "link", 0.9)
    shown = Material(True, True, False, 2, (model, link), first=(Span(0, 1, "band"),))
    control = Material(True, False, False, 2, (link,), first=())
    figures = four_figures((shown, control))
    assert (figures[0].numerator, figures[0].denominator) == (2, 4)
    assert (figures[1].numerator, figures[1].denominator) == (1, 2)
    assert [(row.source, row.accepted, row.ignored) for row in acceptance((shown, control))] == [
        ("link", 0, 1), ("model:x", 1, 0),
    ]  # fmt: skip


def test_figures_count_what_the_expert_added() -> None:
    one = Material(
        True, True, False, 0, (), first=(Span(0, 1, "band"),), second=(Span(0, 1, "band"),),
        gold=(Span(0, 1, "band"), Span(3, 4, "song")),
    )  # fmt: skip
    assert (four_figures((one,))[3].numerator, four_figures((one,))[3].denominator) == (1, 2)


@pytest.mark.parametrize(
    ("spans", "rejected", "expected"),
    [
        ((Span(2, 4, "band"),), set(), "accepted"),
        ((Span(2, 4, "song"),), {(2, 4, "band")}, "retyped"),
        ((Span(3, 5, "band"),), set(), "moved"),
        ((), {(2, 4, "band")}, "deleted"),
        ((Span(4, 5, "band"),), set(), "ignored"),
    ],
)
def test_outcome_of_a_suggestion(spans: tuple[Span, ...], rejected: set[tuple[int, int, str]], expected: str) -> None:
    assert outcome(Suggestion(2, 4, "band", "link", 1.0), spans, frozenset(rejected)) == expected
