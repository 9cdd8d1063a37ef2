"""The page Second look: one doubt at a time, three decisions, progress, and what was decided."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from db.engine import Store
from tests.support import builders
from tests.support.label_review import gold_of, look, said
from tests.support.screens import made_reports, open_screen
from workbench.accounts.actors import Actor
from workbench.campaigns import sentences
from workbench.jobs import queue
from workbench.labelling import label_review

MARA = "Mara Vell was praised in Norway ."
REPEATED = "The crowd heard Mara Vell in the rain until all the lamps of the town went out ."


@pytest.fixture
def doubted(store: Store, people: dict[str, Actor], campaign: int) -> int:
    """A campaign with gold that two checks doubt."""
    builders.make_gold(store, people, campaign)
    rows = [
        said(MARA, (0, 2, "band"), (5, 6, "country"), id="in-1"),
        said("Fans of Mara Vell came with The Tin Gulls .", (2, 4, "musicalartist"), id="<b>in-2</b>"),
    ]
    sentences.add_sentences(store, people["res"], campaign, rows)
    look(store, campaign)
    return campaign


def page(monkeypatch: pytest.MonkeyPatch, store: Store, actor: Actor, campaign: int) -> AppTest:
    screen = open_screen(monkeypatch, store, "label_review", actor, campaign=campaign)
    assert not screen.exception, screen.exception
    return screen


def words(screen: AppTest) -> str:
    assert not screen.exception, screen.exception
    kinds = ("markdown", "caption", "info", "warning", "error", "success", "text")
    return "\n".join(str(element.value) for kind in kinds for element in screen.get(kind))


def press(screen: AppTest, label: str) -> AppTest:
    return next(button for button in screen.button if button.label == label).click().run()


def test_page_without_gold_says_so(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    assert "no gold yet" in words(page(monkeypatch, store, people["eva"], campaign))


def test_page_queues_a_look(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    screen = press(page(monkeypatch, store, people["eva"], campaign), "Review 6 gold sentences")
    job = queue.newest_job(store, people["eva"], "second_look", campaign)
    assert job is not None and job.state == "queued"
    assert "No worker is alive" in words(screen)
    press(screen, "Cancel this review")
    job = queue.newest_job(store, people["eva"], "second_look", campaign)
    assert job is not None and job.state == "cancelled" and "Cancel this review" not in [b.label for b in screen.button]


def test_page_offers_no_report_before_it_has_looked(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], campaign: int
) -> None:
    builders.make_gold(store, people, campaign)
    made = made_reports(monkeypatch, "pages.parts.work.label_review")
    page(monkeypatch, store, people["eva"], campaign)
    assert made == {}


def test_page_offers_its_report_once_it_has_looked(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], doubted: int
) -> None:
    made = made_reports(monkeypatch, "pages.parts.work.label_review")
    page(monkeypatch, store, people["eva"], doubted)
    assert list(made) == [f"second-look-{doubted}"]


def shown(screen: AppTest) -> dict[str, Any]:
    """Return what the page gives the part in the browser that decides by keys."""
    (mounted,) = screen.get("bidi_component")
    payload: dict[str, Any] = json.loads(mounted.proto.json)
    return payload


def test_page_shows_the_queue_to_the_browser(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], doubted: int
) -> None:
    payload = shown(page(monkeypatch, store, people["eva"], doubted))
    (item,) = payload["items"]
    assert item["text"] == MARA and "Mara Vell” is musical artist 2 ×, band 1 ×" in item["why"]
    assert payload["url"] == f"/label-review/{doubted}/inconsistent_surfaces" and len(payload["token"]) == 64
    assert (payload["progress"], payload["user"]) == ({"done": 0, "left": 1}, people["eva"].id)


@pytest.fixture
def repeated(store: Store, people: dict[str, Actor], campaign: int) -> int:
    """A campaign with gold of which one sentence of the pool stands in test again."""
    builders.make_gold(store, people, campaign)
    for split, text in (("pool", REPEATED), ("test", REPEATED.replace(" .", " !"))):
        rows = [said(text, (3, 5, "musicalartist"), id=f"{split}-1")]
        sentences.add_sentences(store, people["res"], campaign, rows, split=split)
    look(store, campaign)
    return campaign


def left_out(store: Store, people: dict[str, Actor], campaign: int) -> list[str]:
    done = label_review.decided(store, people["eva"], campaign)
    return [one.leaving.text for one in done if one.state == "left_out"]


def test_page_offers_to_leave_out_what_is_repeated(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], repeated: int
) -> None:
    (item,) = shown(page(monkeypatch, store, people["eva"], repeated))["items"]
    assert (item["can"], item["leaves"]) == (["keep", "leave_out", "reopen"], {"from": "pool", "stays": "test"})
    assert item["sides"] == [] and item["other"]["split"] in ("pool", "test")


def test_page_lists_what_is_left_out_and_takes_it_in_again(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], repeated: int
) -> None:
    (one,) = label_review.findings(store, people["eva"], repeated, "near_duplicates")
    label_review.decide(store, people["eva"], one.id, "leave_out")
    screen = page(monkeypatch, store, people["eva"], repeated)
    assert any(part.label == "Left out · 1" for part in screen.expander)
    table = next(one for one in screen.dataframe if "sentence" in one.value.columns)
    assert table.value[["who", "split", "sentence"]].to_numpy().tolist() == [["Eva", "pool", REPEATED]]
    assert next(button for button in screen.button if button.label == "Include again").disabled
    screen.session_state[table.key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    press(screen.run(), "Include again")
    assert left_out(store, people, repeated) == [] and "its doubt is open in its queue" in words(screen)
    (again,) = label_review.findings(store, people["eva"], repeated, "near_duplicates")
    assert again.id == one.id and [entry["state"] for entry in again.history] == ["left_out", "reverted"]
    assert not any(part.label.startswith("Left out") for part in screen.expander)


def test_pages_count_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], repeated: int
) -> None:
    (one,) = label_review.findings(store, people["eva"], repeated, "near_duplicates")
    label_review.decide(store, people["eva"], one.id, "leave_out")
    models = open_screen(monkeypatch, store, "adaptation", people["res"], campaign=repeated)
    models.button_group(key="model-view").set_value("Train").run()
    assert not models.exception, models.exception
    assert "Freeze the gold now (7 sentences)" in [button.label for button in models.button]
    progress = open_screen(monkeypatch, store, "campaign", people["res"], campaign=repeated)
    assert "1 of them left out of snapshots" in words(progress)
    assert "8 of 8 sentences are gold" in progress.get("progress")[0].proto.text
    queue = open_screen(monkeypatch, store, "queue", people["res"], campaign=repeated)
    assert "6 of the pool are gold to train on" in words(queue)


def test_sentences_say_what_is_left_out(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], repeated: int
) -> None:
    (one,) = label_review.findings(store, people["eva"], repeated, "near_duplicates")
    label_review.decide(store, people["eva"], one.id, "leave_out")
    query = {"sentence": str(one.sentence_id)}
    test = open_screen(monkeypatch, store, "data", people["res"], campaign=repeated, query=query)
    assert "Left out of training: Eva, 20" in words(test)


def test_page_reverts_a_decision_after_a_reload(
    monkeypatch: pytest.MonkeyPatch, store: Store, people: dict[str, Actor], doubted: int
) -> None:
    before = gold_of(store, doubted)
    (finding,) = label_review.findings(store, people["eva"], doubted, "inconsistent_surfaces")
    label_review.decide(store, people["eva"], finding.id, "change")
    screen = page(monkeypatch, store, people["eva"], doubted)
    table = next(table for table in screen.dataframe if "decided" in table.value.columns)
    screen.session_state[table.key] = {"selection": {"rows": [0], "columns": [], "cells": []}}
    assert "changed by eva on" in words(screen.run()).replace("\\", "")
    press(screen, "Revert")
    assert gold_of(store, doubted) == before and label_review.decided(store, people["eva"], doubted) == ()
