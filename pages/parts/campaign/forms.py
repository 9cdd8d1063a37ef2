"""Forms of the campaigns screen: an imported one, and everything that can be changed in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field
from typing import Any

import streamlit as st

from crossner_core.errors import NotFound
from pages import shell
from pages.components.lazy_download import download_problem
from pages.components.marked_text import as_text
from pages.components.under_way import cancel_button, worker_line
from pages.parts.campaign.descriptions import descriptions_view
from pages.parts.campaign.exchange import download_campaign
from pages.parts.campaign.outside import outside_view
from pages.parts.campaign.outside_tools import addresses_view
from pages.parts.campaign.webhooks import webhooks_view
from workbench import out_of_process
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, domains
from workbench.campaigns import settings as campaign_settings
from workbench.campaigns.campaigns import CampaignView
from workbench.data import archive
from workbench.jobs import queue
from workbench.settings import settings_of
from workbench.suggestions import gazetteers

_JOB_WORDS = {"queued": "queued", "running": "running", "done": "done", "failed": "failed", "cancelled": "cancelled"}
_JOB_KINDS = {"preannotate": "from links and names", "score_pool": "with a model"}
_ROUND = "campaigns:round"
_COLUMNS = 3
_FIRST = ("blind_share", "control_share", "lease_minutes", "gazetteer", "suggestions_on", "open_at_submit")


def zip_view(actor: Actor) -> None:
    """Draw the form that makes a campaign from an exported one."""
    turn = st.session_state.setdefault(_ROUND, 0)
    with st.form(f"campaigns:zip:{turn}"):
        file = st.file_uploader("Exported campaign", type="zip")
        name = st.text_input("Name", max_chars=100, placeholder="as in the file")
        st.caption("People are matched by account name; those unknown here get a closed account.")
        pressed = st.form_submit_button("Import the campaign", type="primary")
    if pressed and file is None:
        st.info("Choose a zip file first.")
    elif pressed and file is not None:
        with shell.shown_errors(), st.spinner("Checking and writing …"):
            made = out_of_process.call(
                archive.import_campaign, shell.store(), actor, file.getvalue(), name=name.strip() or None
            )
            _made(campaigns.get_campaign(shell.store(), actor, made).name)


def _made(name: str) -> None:
    shell.note(f"The campaign {as_text(name)} was created.")
    st.session_state[_ROUND] += 1
    st.rerun()


def change_view(actor: Actor, known: Sequence[CampaignView]) -> None:
    """Draw the choice of a campaign, then its rules, members, suggestions and end; a researcher changes some."""
    named = {view.id: view for view in known}
    if st.session_state.get("campaigns:which") not in named:
        st.session_state["campaigns:which"] = known[0].id
    chosen = named[
        st.selectbox("Campaign to change", list(named), format_func=lambda id_: named[id_].name, key="campaigns:which")
    ]
    # Tabs would fall back to the first one whenever a note appears above them.
    parts = list(_PARTS) if actor.role == "admin" else list(_RESEARCHERS)
    part = st.segmented_control(
        "What to change", parts, default=parts[0], required=True, key="campaigns:part", width="content"
    )
    _PARTS[part](actor, chosen)
    addresses_view(chosen)


def _rules(actor: Actor, key: str, now: CampaignView) -> dict[str, Any]:
    """Draw the settings that can be changed, those that nobody needs at first folded away; return them by name."""
    specs, asked = campaign_settings.fields("rules"), {}
    offered = gazetteers_here(actor)
    first = [spec for spec in specs if spec.name in _FIRST]
    for place, part in (
        (st.container(), first),
        (st.expander("More rules"), [spec for spec in specs if spec not in first]),
    ):
        for start in range(0, len(part), _COLUMNS):
            row = part[start : start + _COLUMNS]
            for column, spec in zip(place.columns(_COLUMNS, vertical_alignment="bottom"), row, strict=False):
                with column:
                    value = getattr(now, spec.name)
                    asked[spec.name] = setting_input(spec, value, f"campaigns:{spec.name}:{key}", offered)
    return asked


def gazetteers_here(actor: Actor) -> dict[str, list[str]]:
    """Return what `setting_input` offers: the gazetteers of the home folder that can be opened."""
    known = gazetteers.list_gazetteers(shell.store(), actor)
    return {"gazetteer": [view.name for view in known if not view.problem]}


def setting_input(
    spec: Field[Any], value: Any, key: str, offered: Mapping[str, Sequence[str]], *, tooltip: bool = True
) -> Any:
    """Draw the input of one setting, with what it means as a tooltip; return what it holds."""
    meta = spec.metadata
    label = meta["label"]
    shared: dict[str, Any] = {"key": key, "help": meta["help"] if tooltip else None}
    if spec.name in offered:  # a value that is set can still be chosen even if it no longer exists
        values = list(dict.fromkeys(["", *offered[spec.name], value or ""]))
        return st.selectbox(
            label, values, values.index(value or ""), format_func=lambda name: name or meta["empty"], **shared
        )
    if choices := meta.get("choices"):
        return st.selectbox(label, choices, choices.index(value), **shared)
    if isinstance(spec.default, bool):
        return st.checkbox(label, value, **shared)
    if meta.get("percent"):
        percent = st.number_input(f"{label}, %", 0, 100, round(100 * value), **shared)
        return (
            value if round(100 * value) == percent else percent / 100
        )  # an untouched value may be finer than a percent
    if isinstance(spec.default, int):
        return int(st.number_input(label, meta["min"], meta["max"], value, **shared))
    return st.text_input(label, value or "", placeholder=meta["empty"], **shared)


def _change_rules(actor: Actor, campaign: CampaignView) -> None:
    with st.form(f"campaigns:rules:{campaign.id}"):
        name = st.text_input("Name", campaign.name, max_chars=100, key=f"campaigns:name:{campaign.id}")
        settings = _rules(actor, str(campaign.id), campaign)
        st.caption(f"Seed {campaign.seed}. Changed shares apply to sentences that nobody has begun.")
        pressed = st.form_submit_button("Save the rules", type="primary")
    if pressed:
        with shell.shown_errors():
            campaigns.update_settings(shell.store(), actor, campaign.id, name=name, **settings)
            shell.note(f"The rules of {as_text(name.strip())} are saved.")
            st.rerun()


def people_names(actor: Actor) -> dict[int, str]:
    """Name everybody who can become a member, with the role, by id."""
    return {
        person.id: f"{person.display_name} · {person.role}"
        for person in campaigns.possible_members(shell.store(), actor)
    }


def _change_members(actor: Actor, campaign: CampaignView) -> None:
    closed = {member.id: f"{member.display_name} · account closed" for member in campaign.members if not member.active}
    people = people_names(actor) | closed
    with st.form(f"campaigns:members:{campaign.id}"):
        chosen = st.multiselect(
            "Members",
            list(people),
            default=[member.id for member in campaign.members if member.id in people],
            format_func=people.__getitem__,
            placeholder="Choose people",
            key=f"campaigns:people:{campaign.id}",
        )
        st.caption("People you remove no longer see the campaign; their work stays in it.")
        pressed = st.form_submit_button("Save the members", type="primary")
    if pressed:
        with shell.shown_errors():
            campaigns.set_members(shell.store(), actor, campaign.id, chosen)
            shell.note(f"{as_text(campaign.name)} has {len(chosen)} members.")
            st.rerun()


def _preannotation(actor: Actor, campaign: CampaignView) -> None:
    st.text(f"Names are looked up in {', then in '.join(campaign.sources)}.")
    worker_line()
    with shell.shown_errors():
        if st.button("Queue pre-annotation again", disabled=campaign.archived, key=f"campaigns:again:{campaign.id}"):
            queue.start_job(shell.store(), actor, "preannotate", campaign.id)
            shell.note(f"The worker will pre-annotate the new sentences of {as_text(campaign.name)}.")
            st.rerun()
    jobs = [job for job in queue.list_jobs(shell.store(), actor, campaign.id, limit=20) if job.kind in _JOB_KINDS]
    if busy := [job for job in jobs if job.is_under_way]:
        with shell.shown_errors():
            if cancel_button(
                "Cancel pre-annotation",
                asked=all(job.cancel_requested for job in busy),
                key=f"campaigns:cancel:{campaign.id}",
                help="Suggestions made so far are kept.",
            ):
                queue.cancel_in_campaign(shell.store(), actor, campaign.id, *_JOB_KINDS)
                st.rerun()
    if jobs:
        st.dataframe(
            [
                {
                    "Requested": job.created_at,
                    "Suggestions": _JOB_KINDS[job.kind],
                    "State": _JOB_WORDS.get(job.state, job.state),
                    "Done": job.progress,
                    "Message": job.error or job.message,
                }
                for job in jobs
            ],
            hide_index=True,
            column_config={
                "Requested": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm"),
                "Done": st.column_config.ProgressColumn(min_value=0, max_value=1, format="percent"),
            },
        )


def _domain(actor: Actor, campaign: CampaignView) -> None:
    mine = campaign.domain
    try:
        newest = domains.get_domain(shell.store(), campaign.domain_name)
    except NotFound:
        newest = None
    if newest is None:
        st.caption(f"The campaign's own definition of {mine.name}, {len(mine.types)} types; no such domain is listed.")
    elif newest.hash == mine.hash:
        st.caption(f"The domain {mine.name} is up to date: {len(mine.types)} types.")
    else:
        st.text(f"The domain {mine.name} has changed since: {len(mine.types)} types here, {len(newest.types)} there.")
        with shell.shown_errors():
            if st.button("Use the changed domain", disabled=campaign.archived, key=f"campaigns:domain:{campaign.id}"):
                campaigns.update_domain(shell.store(), actor, campaign.id, newest)
                shell.note(f"{as_text(campaign.name)} now uses the changed domain.")
                st.rerun()


def _domain_and_end(actor: Actor, campaign: CampaignView) -> None:
    _domain(actor, campaign)
    _end(actor, campaign)


def _end(actor: Actor, campaign: CampaignView) -> None:
    with shell.shown_errors():
        label = "Bring back from the archive" if campaign.archived else "Archive: no more work"
        if st.button(label, key=f"campaigns:archive:{campaign.id}"):
            campaigns.update_settings(shell.store(), actor, campaign.id, archived=not campaign.archived)
            shell.note(f"{as_text(campaign.name)} is {'open again' if campaign.archived else 'archived'}.")
            st.rerun()
        if campaign.archived:
            st.text("Deleting removes every sentence, annotation and run, and the runs' weights, for good.")
            download_campaign(actor, campaign)
            download_problem()
            typed = st.text_input(
                "Type the campaign's name to delete it",
                key=f"campaigns:delete:{campaign.id}",
                placeholder=campaign.name,
            )
            if st.button("Delete the campaign", disabled=typed.strip() != campaign.name):
                campaigns.delete_campaign(shell.store(), actor, campaign.id, home=settings_of(shell.store()).home)
                shell.note(f"The campaign {as_text(campaign.name)} is deleted.")
                st.rerun()


_PARTS = {
    "Rules": _change_rules,
    "Members": _change_members,
    "Pre-annotation": _preannotation,
    "Guidelines": descriptions_view,
    "Outside models": outside_view,
    "Webhooks": webhooks_view,
    "Domain and archive": _domain_and_end,
}
_RESEARCHERS = ("Members", "Pre-annotation", "Guidelines", "Outside models", "Webhooks")
"""What a researcher changes; rules, domain and archive are an admin's."""
