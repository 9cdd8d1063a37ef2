"""The sources of a recipe on the page: what becomes of their types, guidelines side by side, what is kept apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crossner_core.domains import load_domain
from db.engine import Store
from pages.components.marked_text import as_text
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.screens import open_screen
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person, recipe_here, work
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, sentences
from workbench.data import snapshots
from workbench.runs import adaptation

_TEXT = "Choirs too, <b>never</b> orchestras."


@pytest.fixture
def two(store: Store) -> tuple[Actor, int, int]:
    """Two campaigns with gold, the older with a guideline of its own for `band`, and a data set."""
    admin = person(store, "admin")
    older, newer = campaign_with_gold(store, admin, name="Older"), campaign_with_gold(store, admin, name="Newer")
    sentences.add_sentences(store, admin, older, in_music(own_sentences(3, offset=36)))
    own_dataset(store, admin, name="news", train=5)
    domain = load_domain("music")
    kinds = tuple(replace(kind, guideline=_TEXT) if kind.name == "band" else kind for kind in domain.types)
    campaigns.update_domain(store, admin, older, replace(domain, types=kinds))
    snapshots.freeze(store, admin, newer)
    return admin, older, newer


def _train(monkeypatch: pytest.MonkeyPatch, store: Store, admin: Actor, campaign_id: int, source: list[str]) -> Any:
    test = open_screen(monkeypatch, store, "adaptation", admin, campaign=campaign_id)
    test.button_group(key="model-view").set_value("Train").run()
    test.selectbox(key=f"recipe-{campaign_id}-setting").set_value("joint").run()
    test.multiselect(key=f"recipe-{campaign_id}-source").set_value(source).run()
    assert not test.exception, test.exception
    return test


def test_types_with_two_guidelines_are_shown_side_by_side_and_kept_apart(
    monkeypatch: pytest.MonkeyPatch, store: Store, two: tuple[Actor, int, int]
) -> None:
    admin, older, newer = two
    test = _train(monkeypatch, store, admin, newer, ["news", f"gold:{older}"])
    table = test.dataframe[0].value
    assert list(table["source"]) == ["Older · gold", "news · data set"]
    assert list(table["sentences"]) == [23, 5] and "band" in table["shared types"][0]
    assert [one.value for one in test.text if one.value == _TEXT] == [_TEXT]
    assert any(one.value == load_domain("music").type("band").guideline.strip() for one in test.text)
    test.checkbox(key=f"recipe-{newer}-apart-band@gold:{older}").set_value(True).run()
    table = test.dataframe[0].value
    assert table["apart"][0] == "band" and "band" not in table["shared types"][0]
    test.button(key=f"start-run-{newer}").click().run()
    assert not test.exception and [one.value for one in test.error] == []
    (run,) = adaptation.list_runs(store, admin, newer)
    (frozen,) = snapshots.list_snapshots(store, admin, older)
    assert run.recipe["source_types"] == f"band@snapshot:{frozen.name}"


def test_sources_that_cannot_be_used_say_so_beside_the_form(
    monkeypatch: pytest.MonkeyPatch, store: Store, two: tuple[Actor, int, int]
) -> None:
    admin, _, newer = two
    test = _train(monkeypatch, store, admin, newer, ["snapshot:0123456789ab"])
    assert any("may have been deleted" in one.value for one in test.error)
    test.multiselect(key=f"recipe-{newer}-source").set_value(["news"]).run()
    assert not test.error and list(test.dataframe[0].value["source"]) == ["news · data set"]
    test.text_input(key=f"recipe-{newer}-source_types").set_value("band, location, person").run()
    assert any("no type in common with the target" in one.value for one in test.warning)


def test_run_says_what_came_from_where_and_the_campaign_who_lent_it(
    monkeypatch: pytest.MonkeyPatch, store: Store, tmp_path: Path, two: tuple[Actor, int, int]
) -> None:
    admin, older, newer = two
    (frozen,) = snapshots.list_snapshots(store, admin, newer)
    test = open_screen(monkeypatch, store, "campaign", admin, campaign=newer)
    assert not any("lent" in one.value for one in test.caption)
    recipe = recipe_here(
        tmp_path,
        setting="joint",
        source=f"news, gold:{older}*2",
        source_types="person=band, song@news",
        source_epochs=1,
    )
    run_id = adaptation.start_run(store, admin, campaign_id=newer, snapshot_id=frozen.id, recipe=recipe)
    assert work(store, tmp_path) >= 1
    detail = adaptation.get_run(store, admin, run_id)
    news, gold = detail.sources
    assert (news.name, news.sentences, news.counts, news.mapped) == ("news", 5, 5, {"person": "band"})
    assert (gold.sentences, gold.counts, gold.weight, gold.entities) == (23, 46, 2.0, 58)
    assert "song" in gold.shared and "person" in gold.mapped
    assert "source_types has 'song@news', a type that source news does not have: it has no effect." in detail.reasons
    test = open_screen(monkeypatch, store, "adaptation", admin, campaign=newer)
    test.button_group(key="model-view").set_value("Runs").run()
    assert not test.exception, test.exception
    table = next(one.value for one in test.dataframe if "hash" in one.value)
    assert list(table["source"]) == ["news · data set", "Older · gold"] and list(table["entities"]) == [13, 58]
    test = open_screen(monkeypatch, store, "campaign", admin, campaign=newer)
    (line,) = [one.value for one in test.caption if "lent" in one.value]
    assert line == as_text(f"Other campaigns lent its model (run {run_id}) 23 sentences: Older 23")
    alone = recipe_here(tmp_path, max_epochs=40)
    adaptation.start_few_shot(store, admin, snapshot_id=frozen.id, recipe=alone, sizes=(3, 6), seeds=(1,))
    assert work(store, tmp_path) == 2
    test = open_screen(monkeypatch, store, "campaign", admin, campaign=newer)
    (line,) = [one.value for one in test.caption if "lent" in one.value]
    assert "Without them its F1 takes" in line and "more gold sentences of this campaign" in line
    campaigns.update_settings(store, admin, older, archived=True)
    campaigns.delete_campaign(store, admin, older)
    words = adaptation.get_run(store, admin, run_id).source_words
    assert sorted(words.values()) == ["a deleted campaign · gold", "news · data set"]
