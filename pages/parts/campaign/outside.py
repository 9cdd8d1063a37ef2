"""Outside models of a campaign: what would be sent where, its budget, a look at ten sentences, and the job."""

from __future__ import annotations

import json
from functools import partial

import streamlit as st

from pages import shell
from pages.components.marked_text import as_text, marked_sentence
from pages.components.under_way import job_log, job_state, watched_job, worker_line
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.jobs import queue
from workbench.settings import settings_of
from workbench.suggestions import asking_outside, outside
from workbench.suggestions.asking_outside import JOB, OutsidePreview
from workbench.suggestions.outside import Allowed, OutsideView, Plan
from workbench.suggestions.previewing import SENTENCES, PreviewedSentence

_REQUESTS, _MOST = 500, 10_000_000


def outside_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw the outside models that the settings name; nothing is sent before somebody allows it and asks."""
    with shell.shown_errors():
        views = outside.outside_models(shell.store(), actor, campaign.id)
        if not views:
            _none_named(actor)
            return
        named = {view.name: view for view in views}
        chosen = st.selectbox(
            "Outside model", list(named), format_func=lambda name: _label(named[name]), key=f"outside:{campaign.id}"
        )
        _model(actor, campaign, named[chosen])


def _none_named(actor: Actor) -> None:
    st.info("The settings name no outside model, so nothing can be sent anywhere.")
    if actor.role == "admin":
        st.caption(
            as_text(
                f"Name one in {settings_of(shell.store()).outside_models}; docs/models.md, Outside models, says how."
            )
        )
    else:
        st.caption("Whoever runs the workbench can name one, such as a language model or a GLiNER service.")


def _label(view: OutsideView) -> str:
    return " · ".join(part for part in (view.name, view.model, view.host) if part)


def _model(actor: Actor, campaign: CampaignView, view: OutsideView) -> None:
    if view.problem:
        st.warning(as_text(view.problem))
    if view.allowed is not None:
        _spent(view, view.allowed)
    if not view.kind or campaign.archived:
        _end(actor, campaign, view)
        return
    plan = _plan(actor, campaign, view)
    if plan is not None:
        _sent(view, plan)
        if view.allowed is None or not view.allowed.is_open:
            _permission(actor, campaign, view, plan)
        else:
            with st.expander("Change the budget"):
                _permission(actor, campaign, view, plan)
            _ask(actor, campaign, view)
    _jobs(actor, campaign, view)
    _end(actor, campaign, view)


def _plan(actor: Actor, campaign: CampaignView, view: OutsideView) -> Plan | None:
    with shell.shown_errors():
        return outside.plan(shell.store(), actor, campaign.id, view.name)
    return None


def _spent(view: OutsideView, allowed: Allowed) -> None:
    spent, budget = allowed.spent, allowed.budget
    tokens = f"{spent.input_tokens + spent.output_tokens:,}" + _of(budget.tokens)
    parts = [f"{spent.requests:,}{_of(budget.requests)} requests", f"{tokens} tokens"]
    if view.has_price or spent.cost:
        parts.append(f"{spent.cost:,.4f}{_of(budget.cost)} {view.currency}".rstrip())
    st.text(f"Spent: {' · '.join(parts)}")
    answers = f"{allowed.answered:,} usable answers of {allowed.answered + allowed.unusable:,}"
    line = f"{answers} · {view.suggestions:,} suggestions in this campaign"
    if dropped := {why: count for why, count in allowed.dropped.items() if count}:
        listed = ", ".join(f"{count:,} × {why}" for why, count in sorted(dropped.items()))
        line += f" · dropped from the answers: {listed}"
    st.caption(as_text(line))


def _of(most: float | None) -> str:
    return "" if most is None else f" of {most:,g}" if isinstance(most, float) else f" of {most:,}"


def _sent(view: OutsideView, plan: Plan) -> None:
    st.markdown("**What will be sent**")
    key = "with a key" if plan.has_key else "without a key"
    if plan.new:
        kept = f"; {plan.open - plan.new:,} answers are kept already" if plan.new < plan.open else ""
        st.text(f"To {plan.url}, {key}: one request for each of {plan.new:,} open sentences{kept}.")
    else:
        st.text(f"Nothing: the answers of {plan.url} about all {plan.open:,} open sentences are kept already.")
    about, most = plan.cost
    price = f", {about:,.2f} {plan.currency} (at most {most:,.2f})" if view.has_price else ""
    if plan.new and plan.tokens[1]:
        st.text(f"That is about {plan.tokens[0]:,} tokens (at most {plan.tokens[1]:,}){price}.")
    elif plan.new and price:
        st.text(f"That costs about {about:,.2f} {plan.currency}.")
    st.caption(
        "Each request holds a sentence's text, and titles of the types, for a language model with their guidelines: no "
        "names of people, no annotation, no gold."
    )
    for line in plan.warnings:
        st.warning(as_text(line))
    with st.expander("The first request, as it is sent"):
        st.code(json.dumps(plan.request, ensure_ascii=False, indent=1), language="json", wrap_lines=True, height=320)


def _permission(actor: Actor, campaign: CampaignView, view: OutsideView, plan: Plan) -> None:
    """Draw the budget, and the button that allows sending."""
    budget = view.allowed.budget if view.allowed is not None else None
    with st.form(f"outside:allow:{campaign.id}:{view.name}"):
        requests_column, tokens_column, cost_column = st.columns(3)
        requests = requests_column.number_input(
            "Most requests", 1, _MOST, budget.requests if budget else min(_REQUESTS, plan.new + max(10, plan.new // 5)),
            help="All that are ever sent for this campaign, those sent again included.",
        )  # fmt: skip
        tokens = tokens_column.number_input(
            "Most tokens", 0, 10**12, (budget.tokens if budget else None) or 0, help="Sent and answered; 0: any number."
        )
        cost = cost_column.number_input(
            f"Most cost, {view.currency}", 0.0, 1e9, (budget.cost if budget else None) or 0.0,
            disabled=not view.has_price, help="By the prices in the settings; 0: any.",
        )  # fmt: skip
        label = "Save the budget" if view.allowed and view.allowed.is_open else f"Allow sending to {view.host}"
        pressed = st.form_submit_button(label, type="primary", disabled=bool(view.problem))
    if pressed:
        with shell.shown_errors():
            outside.allow(
                shell.store(), actor, campaign.id, view.name, address=view.address, requests=int(requests),
                tokens=int(tokens) or None, cost=float(cost) or None,
            )  # fmt: skip
            shell.note(f"Sentences of {as_text(campaign.name)} may be sent to {as_text(view.host)}; none was sent yet.")
            st.rerun()


def _ask(actor: Actor, campaign: CampaignView, view: OutsideView) -> None:
    """Draw the button that looks at ten sentences, what came, and the button that asks about all."""
    key = f"outside:looked:{campaign.id}:{view.name}"
    pressed = st.button(
        "Look at ten sentences",
        key=f"outside:look:{campaign.id}:{view.name}",
        disabled=bool(view.problem),
        help=f"Sends up to {SENTENCES} requests to {view.host}. Nobody else sees what comes; the answers are kept.",
    )
    if pressed:
        with shell.shown_errors(), st.spinner(f"Asking {as_text(view.name)} …"):
            st.session_state[key] = asking_outside.preview(shell.store(), actor, campaign.id, view.name)
            st.rerun()
    looked: OutsidePreview | None = st.session_state.get(key)
    if looked is None:
        return
    with st.container(border=True):
        _looked(actor, campaign, view, looked)
    st.button("Close the preview", key=f"{key}:close", type="tertiary", on_click=partial(st.session_state.pop, key))


def _looked(actor: Actor, campaign: CampaignView, view: OutsideView, looked: OutsidePreview) -> None:
    st.markdown(
        f"**What {as_text(view.name)} would suggest** in {len(looked.sentences)} of {looked.open} open sentences"
    )
    for each in looked.sentences:
        st.html(_marked(each, campaign))
    st.caption(as_text(f"{looked.report}."))
    if looked.sentences and st.button(
        f"Suggest in {looked.open} open sentences", key=f"outside:ask:{campaign.id}:{view.name}", type="primary"
    ):
        with shell.shown_errors():
            asking_outside.start(shell.store(), actor, campaign.id, view.name)
            del st.session_state[f"outside:looked:{campaign.id}:{view.name}"]
            shell.note(f"The worker will ask {as_text(view.name)}.")
            st.rerun()


def _marked(each: PreviewedSentence, campaign: CampaignView) -> str:
    return marked_sentence(each.sentence, [made.span for made in each.suggestions], campaign.domain, {})


def _jobs(actor: Actor, campaign: CampaignView, view: OutsideView) -> None:
    """Draw the newest job of this campaign, with its buttons and log."""
    job = queue.newest_job(shell.store(), actor, JOB, campaign.id)
    if job is None:
        return
    worker_line()
    key = f"outside:cancel:{campaign.id}"
    if job.is_under_way:
        watched_job(
            actor, lambda: queue.newest_job(shell.store(), actor, JOB, campaign.id), key=key,
            help="What was answered is kept.",
        )  # fmt: skip
        return
    job_state(actor, job, key=key)
    if job.message and not job.error:
        st.caption(as_text(job.message))
    job_log(actor, job)


def _end(actor: Actor, campaign: CampaignView, view: OutsideView) -> None:
    """Draw the buttons that take permission and suggestions back."""
    with st.container(horizontal=True):
        if (
            view.allowed is not None
            and view.allowed.is_open
            and st.button(
                "Forbid sending", key=f"outside:forbid:{view.name}", help="Also for a job under way; suggestions stay."
            )
        ):
            with shell.shown_errors():
                outside.forbid(shell.store(), actor, campaign.id, view.name)
                shell.note(f"Nothing more is sent to {as_text(view.host)}.")
                st.rerun()
        if view.suggestions and st.button(
            f"Withdraw its {view.suggestions:,} suggestions",
            key=f"outside:withdraw:{view.name}",
            disabled=campaign.archived,
            help="Those in sentences that people have begun stay.",
        ):
            with shell.shown_errors():
                removed, stay = outside.withdraw(shell.store(), actor, campaign.id, view.name)
                shell.note(f"{removed} suggestions are withdrawn; {stay} stay in sentences that people have begun.")
                st.rerun()
