"""The sources of a recipe on the page: what becomes of their types, guidelines side by side, what is kept apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crossner_core.domains import load_domain
from db.engine import Store
from tests.support.campaigns import campaign_with_gold, in_music
from tests.support.screens import open_screen
from tests.support.training_builders import own_sentences
from tests.support.training_store import own_dataset, person
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
