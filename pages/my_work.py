"""My work: questions to answer, and what became of each sentence."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from crossner_core.schema import Span
from pages import shell
from pages.components.chosen_row import chosen_row
from pages.parts.work import conferring
from workbench.accounts.actors import Actor
from workbench.accounts.roles import LABELLERS
from workbench.labelling.steps import reopen
from workbench.reports.my_work import MyWork, WorkRow, my_work

_STAGE_WORDS = {"annotate": "annotated", "check": "checked", "adjudicate": "adjudicated"}
_PAGE_WORDS = {"annotate": "Annotate", "check": "Check", "adjudicate": "Adjudicate"}
_KIND_WORDS = {
    "boundary": "other boundary in gold",
    "type": "other type in gold",
    "boundary+type": "other boundary and type in gold",
    "missing": "gold has it, you did not",
    "extra": "you marked it, gold does not",
}


def _totals(work: MyWork) -> str:
    judged = work.kept + work.changed
    parts = [f"{work.sentences} sentences sent", f"{work.waiting} on their way to gold"]
    if judged:
        parts.append(f"{work.kept} of {judged} entities kept by the gold")
    if work.skipped:
        parts.append(f"{work.skipped} skipped")
    return " · ".join(parts)


def _table(rows: tuple[WorkRow, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "sent": row.submitted_at,
                "stage": _STAGE_WORDS[row.stage],
                "outcome": row.outcome,
                "kept": row.kept if row.gold is not None and row.stage != "adjudicate" else None,
                "changed": row.changed if row.gold is not None and row.stage != "adjudicate" else None,
                "sentence": row.text,
            }
            for row in rows
        ]
    )


def _reopen(actor: Actor, row: WorkRow) -> None:
    """Take the sentence back; a callback, as on the next run it may have moved on and have no button."""
    with shell.shown_errors():
        reopen(shell.store(), actor, row.task_id)
        shell.note(f"The sentence is yours again: it is the next one under {_PAGE_WORDS[row.stage]}.")


def _offer(actor: Actor, row: WorkRow) -> None:
    gold = " It stops being gold until you send it again." if row.stage == "adjudicate" else ""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Reopen", key=f"my-work-reopen-{row.task_id}", on_click=_reopen, args=(actor, row))
        st.caption(f"Take it back to change it: it waits under {_PAGE_WORDS[row.stage]}, with what you marked.{gold}")


def _in_words(span: Span | None, titles: Mapping[str, str]) -> str:
    if span is None:
        return "nothing"
    which = f"token {span.end}" if span.end == span.start + 1 else f"tokens {span.start + 1} to {span.end}"
    return f"{titles.get(span.type, span.type)}, {which}"


def _one(row: WorkRow, titles: Mapping[str, str]) -> None:
    st.text(row.text)
    st.text("Mine: " + (" · ".join(row.mine) or "no entities"))
    if row.gold is None:
        st.caption(f"Not gold yet: {row.outcome}.")
        return
    st.text("Gold: " + (" · ".join(row.gold) or "no entities"))
    differences = [unit for unit in row.changes if unit.kind in _KIND_WORDS]
    for unit in differences:
        sides = (unit.first, unit.second)
        mine, gold = (_in_words(span, titles) for span in sides)
        st.text(f"· {_KIND_WORDS[unit.kind]}: {mine} → {gold}")


actor = shell.signed_in(*LABELLERS)
campaign = shell.page(
    actor,
    "My work",
    "What became of the sentences you sent, and does the expert have a question for you?",
    help="""
A sentence you sent goes to a second annotator and then to the expert, who makes it gold. Here you see which of your
entities the gold kept and where it differs. Choose a row to see the sentence. As long as nobody has begun the next
stage, **Reopen** gives it back to you; experts can reopen their own gold at any time.
If the expert has a question, it appears above the list; a short answer is enough.
""",
)
if campaign:
    with shell.shown_errors():
        conferring.annotator_side(actor, campaign)
        mine = my_work(shell.store(), actor, campaign.id)
        if not mine.rows:
            st.info("You have not sent a sentence yet. Start under Annotate.")
        else:
            st.caption(_totals(mine))
            only = st.segmented_control(
                "Show", ["all", "changed", "on their way"], default="all", key="my-work-show", required=True
            )
            rows = tuple(
                row
                for row in mine.rows
                if only == "all" or (row.outcome == "changed" if only == "changed" else row.gold is None)
            )
            chosen = chosen_row(
                _table(rows),
                [row.task_id for row in rows],
                key=f"my-work-table-{campaign.id}-{only}",
                height="content" if len(rows) < 12 else 420,
                placeholder="–",
                column_config={"sent": st.column_config.DatetimeColumn(format="D MMM, HH:mm")},
            )
            if rows:
                row = next((row for row in rows if row.task_id == chosen), rows[0])
                _one(row, campaign.domain.titles)
                if row.can_reopen:
                    _offer(actor, row)
