"""The views of the page Queue: what comes next, the rounds so far, the rules."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from crossner_core.acquisition.selecting import AND_GAZETTEER, RECOMMENDED, SELF_TRAINING, without_idle_weights
from crossner_core.acquisition.selecting import strategy as read_strategy
from crossner_core.errors import InvalidConfig
from pages import shell
from pages.components.html_report import HtmlReport, report_download
from pages.components.marked_text import as_text
from pages.components.under_way import cancel_button, worker_line
from pages.parts.model.recipe_form import recipe_inputs
from pages.parts.model.source_table import with_sources
from workbench.accounts.actors import Actor
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.campaigns import CampaignView
from workbench.campaigns.round_settings import FIRST_BELOW, RoundSettings
from workbench.runs import encoders, rounds, source_corpora
from workbench.runs.rounds import QueueState, RoundView

_SECONDS_BETWEEN_LOOKS = 2
_STATES = {"queued": "queued", "running": "running", "done": "done", "failed": "failed", "cancelled": "cancelled"}
_ROUNDS_IN_WORDS = 5
_OWN = "own mixture"
_NONE = "none: the order of import"
_USUAL = read_strategy(RECOMMENDED)
_WORDS = {_USUAL.functions: f"recommended: {read_strategy(_USUAL.functions).words}"}


def state_line(actor: Actor, campaign: CampaignView) -> None:
    """Show in one line what orders the queue and when the next run is due, or how far the round under way is."""
    busy = rounds.queue_state(shell.store(), actor, campaign.id).round_id is not None
    st.fragment(_state_line, run_every=_SECONDS_BETWEEN_LOOKS if busy else None)(actor, campaign, busy)
    rules = rounds.round_settings(shell.store(), actor, campaign.id)
    if rules.strategy or rules.retrain_every:
        worker_line()


def _state_line(actor: Actor, campaign: CampaignView, was_busy: bool) -> None:
    with shell.shown_errors():
        state = rounds.queue_state(shell.store(), actor, campaign.id)
        if was_busy and state.round_id is None:
            st.rerun()  # the whole page: the queue has another order
        rules = rounds.round_settings(shell.store(), actor, campaign.id)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(as_text(_rules_in_words(rules, state)))
            if state.round_id is not None and actor.role in KEEPERS:
                _cancel(actor, campaign, state)


def _cancel(actor: Actor, campaign: CampaignView, state: QueueState) -> None:
    if cancel_button(
        "Cancel this round",
        asked=state.cancelling,
        key=f"queue:cancel:{state.round_id}",
        help="And the run it waits for. The queue keeps its order; finished scores are kept.",
    ):
        rounds.cancel_round(shell.store(), actor, campaign.id)
        st.rerun()


def _rules_in_words(rules: RoundSettings, state: QueueState) -> str:
    parts = [f"{state.waiting:,} sentences wait", f"{state.gold:,} of the pool are gold to train on"]
    parts.append(
        f"ordered by {_words(rules.strategy)}, {rules.random_share:.0%} by chance" if rules.strategy else "as imported"
    )
    if state.under_way:
        parts.append(state.under_way)
    elif state.missing is not None:
        parts.append(
            "the next run is due"
            if not state.missing
            else f"the next run after {state.missing} more gold sentence{'s' * (state.missing != 1)}"
        )
    return " · ".join(parts)


def next_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the sentences that will be handed out next, and the button that orders them anew."""
    upcoming = rounds.upcoming(shell.store(), actor, campaign.id)
    if not upcoming:
        st.info("Nothing is waiting: every sentence of the pool has been begun. Import more under Sentences.")
        return
    rules = rounds.round_settings(shell.store(), actor, campaign.id)
    may = actor.role in KEEPERS and bool(rules.strategy)
    if may and st.button("Order the queue now", key=f"queue:now:{campaign.id}"):
        rounds.order_now(shell.store(), actor, campaign.id)
        shell.note("The worker will order the queue with the best available model.")
        st.rerun()
    rows = [
        {"Place": number, "Sentence": sentence.text, "Chosen by": _words(sentence.why)}
        for number, sentence in enumerate(upcoming, start=1)
    ]
    report = HtmlReport("What comes next", [campaign.name])
    st.dataframe(
        report.table(pd.DataFrame(rows)),
        hide_index=True,
        column_config={
            "Place": st.column_config.NumberColumn(width=55),
            "Chosen by": st.column_config.TextColumn(width=165),
        },
    )
    brought = rounds.gold_by_choice(shell.store(), actor, campaign.id)
    if brought:
        counts = ", ".join(
            f"{count:,} by {_words(why)}" for why, count in sorted(brought.items(), key=lambda pair: -pair[1])
        )
        st.caption(as_text(report.text(f"Gold so far: {counts}.", caption=True)))
    report_download(lambda: report, name=f"next-{campaign.id}")


def rounds_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the rounds so far, newest first, with their notes."""
    listed = rounds.list_rounds(shell.store(), actor, campaign.id)
    if not listed:
        st.info("No round yet. Under Rules, choose a strategy, or how much new gold starts a retraining.")
        return
    when = st.column_config.DatetimeColumn(format="D MMM, HH:mm")
    report = HtmlReport("Rounds", [campaign.name])
    rows = pd.DataFrame([_row(round_) for round_ in listed])
    st.dataframe(report.table(rows), hide_index=True, column_config={"When": when}, placeholder="–")
    for index, round_ in enumerate(listed):
        for note in round_.notes:
            line = report.text(f"Round {round_.id}: {note}", caption=True)
            if index < _ROUNDS_IN_WORDS:
                st.caption(as_text(line))
    report_download(lambda: report, name=f"rounds-{campaign.id}")


def _words(chosen_by: str) -> str:
    """Return what ordered sentences in words: a strategy, or what is no strategy as it stands."""
    if not chosen_by:
        return "–"
    try:
        return read_strategy(without_idle_weights(chosen_by)).words
    except InvalidConfig:  # chance, import, or a function that is no longer there
        return chosen_by


def _row(round_: RoundView) -> dict[str, Any]:
    return {
        "Round": round_.id,
        "When": round_.created_at,
        "State": _STATES[round_.state],
        "Gold": round_.gold,
        "Run": round_.run_id,
        "F1": None if round_.run_f1 is None else round(100 * round_.run_f1, 1),
        "Strategy": _words(round_.strategy),
        "Scored": round_.scored,
        "Ordered": round_.ordered,
        "Seconds": None if round_.seconds is None else round(round_.seconds),
        "Started": "automatically" if round_.automatic else "by a person",
    }


def rules_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the rules; researchers and admins can change them."""
    now = rounds.round_settings(shell.store(), actor, campaign.id)
    may = actor.role in KEEPERS and not campaign.archived
    left, right = st.columns([2, 1])
    strategy = _strategy(left, campaign, now, may)
    share = right.number_input(
        "By chance, %", 0, 100, round(100 * now.random_share), disabled=not may, key=f"queue:share:{campaign.id}"
    )
    every = right.number_input(
        "Retrain after n new gold sentences",
        0,
        100_000,
        now.retrain_every,
        help="0: only on request.",
        disabled=not may,
        key=f"queue:every:{campaign.id}",
    )
    recipe = dict(now.recipe or {})
    if may and every:
        with st.expander("Recipe of those runs" + (f" · {len(recipe)} changed from the default" if recipe else "")):
            recipe = _recipe(actor, campaign, recipe)
    if may and st.button("Save the rules", type="primary", key=f"queue:save:{campaign.id}"):
        rounds.change_round_settings(
            shell.store(), actor, campaign.id,
            strategy=strategy, random_share=share / 100, retrain_every=int(every), recipe=recipe,
        )  # fmt: skip
        # New widget keys: the recipe form starts again from what is now saved.
        st.session_state[f"queue:round:{campaign.id}"] = st.session_state.get(f"queue:round:{campaign.id}", 0) + 1
        shell.note("The rules are saved. The queue itself changes with the next round.")
        st.rerun()
    if not may:
        st.caption("Researchers and admins change these.")


def _strategy(column: Any, campaign: CampaignView, now: RoundSettings, may: bool) -> str:
    before = read_strategy(now.strategy) if now.strategy else None
    functions = _functions(column, campaign, before.functions if before is not None else "", may)
    if not functions:
        return ""
    if functions.strip().endswith((SELF_TRAINING, AND_GAZETTEER)):
        column.caption("The words after the functions say what models learn from; remove them to choose it here.")
        return functions
    learns = column.checkbox(
        "Models also learn from the rest of the pool (self-training)",
        (before or _USUAL).self_training,
        help="A model's soft targets on sentences without annotation train the next model. A run takes longer; one on "
        f"fewer than {FIRST_BELOW} gold sentences does without it, unless it learns from a gazetteer too.",
        disabled=not may,
        key=f"queue:students:{campaign.id}",
    )
    self_training = learns and column.checkbox(
        "… and from what gazetteer and links propose there",
        (before or _USUAL).gazetteer,
        help="Their weight is estimated on gold for which they made proposals. Without such gold it changes nothing.",
        disabled=not may,
        key=f"queue:told:{campaign.id}",
    )
    return f"{functions} {AND_GAZETTEER if self_training else SELF_TRAINING}" if learns else functions


def _functions(column: Any, campaign: CampaignView, before: str, may: bool) -> str:
    known = {function.id: function for function in rounds.functions()}
    names = [_NONE, _USUAL.functions, *known, _OWN]
    usual = _NONE if not before else before if before in names else _OWN
    chosen = column.selectbox(
        "Strategy",
        names,
        index=names.index(usual),
        format_func=lambda id: known[id].title if id in known else _WORDS.get(id, id),
        disabled=not may,
        key=f"queue:strategy:{campaign.id}",
    )
    if chosen == _OWN:
        return str(
            column.text_input(
                "Functions, joined by +",
                before,
                placeholder="2*token_entropy + rare_types + bert_km",
                help=f"Any of {', '.join(known)}.",
                disabled=not may,
                key=f"queue:mixture:{campaign.id}",
            )
        )
    if chosen in known:
        function = known[chosen]
        column.caption(
            as_text(f"{function.reference}{'; needs a model' if function.needs_model else '; needs no model'}.")
        )
    if chosen == _USUAL.functions:
        column.caption(
            "Uncertain sentences: the most typical one of each cluster of similar ones. Try it out under Savings."
        )
    return "" if chosen == _NONE else chosen


def _recipe(actor: Actor, campaign: CampaignView, now: dict[str, Any]) -> dict[str, Any]:
    from crossner_core.training.recipe import Recipe, effective

    sources = source_corpora.list_sources(shell.store(), actor, without_campaign=campaign.id)
    names = encoders.encoder_names(shell.store(), actor)
    st.caption(as_text(f"Now: {now or 'the default recipe'}."))
    before = Recipe.from_dict(now)
    form = f"{campaign.id}:{st.session_state.get(f'queue:round:{campaign.id}', 0)}:{before.hash[:12]}"
    if st.checkbox("Change the recipe", key=f"queue:recipe:{form}"):
        values = recipe_inputs(f"queue-recipe-{form}", sources, names, start=effective(before.to_dict()))
        values = with_sources(
            actor, values, sources, campaign.domain.titles, f"queue-recipe-{form}", campaign_id=campaign.id
        )
        usual = Recipe().to_dict()
        return {name: value for name, value in values.items() if usual.get(name) != value}
    return now
