"""Webhooks of a campaign: the list, a new one with its secret, what to change, and the log with sending again."""

from __future__ import annotations

import datetime as dt

import streamlit as st

from pages import shell
from pages.components.under_way import worker_line
from workbench.accounts.actors import Actor
from workbench.campaigns.campaigns import CampaignView
from workbench.webhooks import managing
from workbench.webhooks.events import EVENTS
from workbench.webhooks.managing import DeliveryView, NewSecret, WebhookView

_LINES = 50


def webhooks_view(actor: Actor, campaign: CampaignView) -> None:
    """Draw a campaign's webhooks; what they send holds ids and counts, never text."""
    st.caption(
        "A webhook sends this campaign's events to another program: ids and counts, no text. docs/webhooks.md says how "
        "a receiver checks the signature."
    )
    with shell.shown_errors():
        if not campaign.archived:
            _make(actor, campaign)
        views = managing.list_webhooks(shell.store(), actor, campaign.id)
        if not views:
            st.info("This campaign has no webhook, so nothing is sent.")
            return
        worker_line()
        _table(views)
        named = {view.id: view for view in views}
        chosen = st.selectbox(
            "Webhook",
            list(named),
            format_func=lambda number: f"{number}: {named[number].url}",
            key=f"webhooks:chosen:{campaign.id}",
        )
        _one(actor, campaign, named[chosen])
        _log(actor, campaign, named[chosen])


def _make(actor: Actor, campaign: CampaignView) -> None:
    with st.expander("New webhook"), st.form(f"webhooks:new:{campaign.id}", border=False, clear_on_submit=False):
        url = st.text_input("Address", placeholder="https://example.org/hooks", key=f"webhooks:url:{campaign.id}")
        events = _events(list(EVENTS), key=f"webhooks:events:{campaign.id}")
        pressed = st.form_submit_button("Make the webhook", type="primary")
    if pressed:
        with shell.shown_errors():
            made = managing.make_webhook(shell.store(), actor, campaign.id, url=url, events=events)
            _secret(made)


def _events(chosen: list[str], *, key: str) -> list[str]:
    return st.multiselect("Events", list(EVENTS), default=chosen, format_func=_title, key=key)


def _title(name: str) -> str:
    return f"{name} – {EVENTS[name]}"


def _secret(made: NewSecret) -> None:
    st.success(f"The secret of webhook {made.webhook.id} is shown once: give it to the receiver now.")
    st.code(made.secret, language=None)


def _table(views: tuple[WebhookView, ...]) -> None:
    st.dataframe(
        {
            "Number": [view.id for view in views],
            "Address": [view.url for view in views],
            "Events": [", ".join(view.events) for view in views],
            "State": ["on" if view.active else f"off. {view.off_reason}" for view in views],
            "To be sent": [view.waiting for view in views],
            "Last attempt": [view.last for view in views],
            "Made by": [view.created_by or "–" for view in views],
        },
        hide_index=True,
    )


def _one(actor: Actor, campaign: CampaignView, view: WebhookView) -> None:
    """Draw what can be done with a webhook."""
    store, key = shell.store(), f"{campaign.id}:{view.id}"
    off, archived = not view.active, campaign.archived
    with st.container(horizontal=True):
        tests = st.button("Send a test event", key=f"webhooks:test:{key}", disabled=off or archived)
        label = "Switch on" if off else "Switch off"
        switches = st.button(
            label, key=f"webhooks:switch:{key}", disabled=archived, help="Off gives up what is still to be sent."
        )
        renews = st.button(
            "New secret", key=f"webhooks:secret:{key}", disabled=archived, help="The one it has is void at once."
        )
        with st.popover("Remove"):
            st.text("Removes the webhook with its log.")
            removes = st.button("Remove the webhook", key=f"webhooks:remove:{key}")
    with shell.shown_errors():
        if tests:
            managing.send_test(store, actor, campaign.id, view.id)
            shell.note("The worker sends a test event; the log shows what becomes of it.")
            st.rerun()
        if switches:
            managing.change_webhook(store, actor, campaign.id, view.id, active=off)
            st.rerun()
        if removes:
            managing.remove_webhook(store, actor, campaign.id, view.id)
            shell.note(f"The webhook {view.id} is removed.")
            st.rerun()
        if renews:
            _secret(managing.renew_secret(store, actor, campaign.id, view.id))
    if not archived:
        _change(actor, campaign, view)


def _change(actor: Actor, campaign: CampaignView, view: WebhookView) -> None:
    key = f"{campaign.id}:{view.id}"
    with st.expander("Change address and events"), st.form(f"webhooks:change:{key}", border=False):
        url = st.text_input("Address", value=view.url, key=f"webhooks:url:{key}")
        events = _events(list(view.events), key=f"webhooks:events:{key}")
        pressed = st.form_submit_button("Save the webhook")
    if pressed:
        with shell.shown_errors():
            managing.change_webhook(shell.store(), actor, campaign.id, view.id, url=url, events=events)
            shell.note(f"The webhook {view.id} is changed.")
            st.rerun()


def _log(actor: Actor, campaign: CampaignView, view: WebhookView) -> None:
    """Draw the newest deliveries of a webhook, and what sends one again."""
    lines = managing.list_deliveries(shell.store(), actor, campaign.id, webhook_id=view.id, limit=_LINES)
    st.subheader("Log")
    if not lines:
        st.caption("Nothing has happened yet that this webhook wants.")
        return
    st.caption(f"The newest {_LINES}, kept for 30 days." if len(lines) == _LINES else "Kept for 30 days.")
    st.dataframe(
        {
            "Number": [line.id for line in lines],
            "Event": [line.type for line in lines],
            "Happened (UTC)": [_time(line.created_at) for line in lines],
            "State": [line.state for line in lines],
            "Attempts": [line.attempts for line in lines],
            "Next (UTC)": [_time(line.next_at) for line in lines],
            "Answer": [_answer(line) for line in lines],
            "Id": [line.message_id for line in lines],
        },
        hide_index=True,
    )
    key, named = f"{campaign.id}:{view.id}", {line.id: line for line in lines}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Delivery",
            list(named),
            format_func=lambda number: f"{number}: {named[number].type}, {named[number].state}",
            key=f"webhooks:delivery:{key}",
        )
        again = st.button("Send again", key=f"webhooks:again:{key}", disabled=not view.active or campaign.archived)
        st.button("Look again", key=f"webhooks:look:{key}")
    with shell.shown_errors():
        if again:
            managing.redeliver(shell.store(), actor, campaign.id, chosen)
            shell.note(f"The worker sends delivery {chosen} again, under the same id.")
            st.rerun()
    with st.expander("What it sends"):
        st.text(f"webhook-id {named[chosen].message_id}")
        st.json(dict(named[chosen].payload))


def _answer(line: DeliveryView) -> str:
    return line.last_error or (f"it answers {line.last_status}" if line.last_status else "–")


def _time(moment: dt.datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else "–"
