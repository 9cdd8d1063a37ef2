"""What a save costs the store, in statements: a limit that nothing may creep past."""

from __future__ import annotations

import uuid

import pytest
import sqlalchemy as sa

from db.engine import Store
from tests.support.builders import Tab, make_campaign, make_people
from tests.support.postgres import counted, either_store, needs_postgres
from workbench.accounts.sign_in import actor_for_token
from workbench.labelling import screen

__all__ = ["either_store"]

SPANS = [(0, 2, "musicalartist"), (4, 7, "band")]
LOOKED_UP, DRAFT, SUBMIT = 1, 8, 21
"""Statements by which the gate looks somebody up, a draft is saved, and a submit is, with the next sentence."""
FIRST = 1
"""More for the first event of a tab, whose number may have been used by a copy of the tab."""


def test_a_draft_and_a_submit_take_few_statements(either_store: Store) -> None:
    people = make_people(either_store)
    tab = Tab(either_store, people["ann1"], make_campaign(either_store, people), "annotate")
    items = tab.items()
    known = [item["task"] for item in items]

    def save(kind: str, base: int) -> list[str]:
        opened = "none" if kind == "submit" else ""
        message = {
            "client": tab.client,
            "known": known,
            "events": [tab.event(kind, items[0], SPANS, base=base, opened=opened)],
        }
        with counted(either_store) as sent:
            answer = screen.answer(either_store, tab.actor, tab.campaign_id, "annotate", message)
        assert answer.acks and not answer.rejections
        return sent

    first = save("draft", 0)
    assert len(first) <= DRAFT + FIRST, "\n".join(first)
    second = save("draft", 1)
    assert len(second) <= DRAFT, "\n".join(second)
    submitted = save("submit", 2)
    assert len(submitted) <= SUBMIT, "\n".join(submitted)


def test_the_gate_asks_the_store_once(either_store: Store) -> None:
    with counted(either_store) as sent:
        assert actor_for_token(either_store, uuid.uuid4().hex) is None
    assert len(sent) <= LOOKED_UP, "\n".join(sent)


@pytest.mark.parametrize("either_store", [pytest.param("postgresql", marks=needs_postgres)], indirect=True)
def test_a_connection_that_broke_while_idle_is_replaced(either_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with either_store.read() as session:
        broken = session.scalar(sa.text("SELECT pg_backend_pid()"))
    server = sa.create_engine(either_store.url)
    with server.connect() as other:
        other.execute(sa.text("SELECT pg_terminate_backend(:pid)"), {"pid": broken})
    server.dispose()
    monkeypatch.setattr("db.engine._TRUSTED_S", 0.0)
    with either_store.read() as session:
        assert session.scalar(sa.text("SELECT pg_backend_pid()")) != broken
