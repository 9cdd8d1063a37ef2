"""Each setting of a campaign is declared once: form, flag, store, view, archive and checks follow from it."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import MISSING, Field, fields
from typing import Any

import pytest
from typer.main import get_command

from crossner_core.domains import load_domain
from crossner_core.errors import InvalidConfig
from db.engine import Store
from db.tables import Campaign
from tests.support.screens import open_screen
from workbench.accounts.actors import Actor
from workbench.campaigns import campaigns, settings
from workbench.campaigns.settings import CampaignSettings, checked, names
from workbench.cli import app
from workbench.data import archive

People = dict[str, Actor]
SPECS = fields(CampaignSettings)
TEXTS = {"name": ("Rails", " "), "endpoint": ("http://localhost/sparql", "ftp://x"), "gazetteer": ("tiny", "../up"),
         "open_at_submit": ("refuse", "drop"), "confirm": ("all", "some")}  # fmt: skip
"""Of each text one that is allowed and one that is not."""
every_setting = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)


def other(spec: Field[Any]) -> Any:
    """Return a value that is allowed and not the default."""
    if spec.name in TEXTS:
        return TEXTS[spec.name][0]
    return not spec.default if isinstance(spec.default, bool) else spec.metadata["max"]


def refused(spec: Field[Any]) -> list[Any]:
    """Return values that are not allowed."""
    if spec.name in TEXTS:
        return [TEXTS[spec.name][1], 1, ["x"]]
    if isinstance(spec.default, bool):
        return [1, "true", None]
    low, high = spec.metadata["min"], spec.metadata["max"]
    between = [low + 0.5] if isinstance(spec.default, int) else []
    return [low - 1, high + 1, True, str(low), None, float("nan"), *between]


@every_setting
def test_setting_takes_what_is_within_its_bounds_and_names_them(spec: Field[Any]) -> None:
    assert checked({spec.name: other(spec)}, names()) == {spec.name: other(spec)}
    for value in refused(spec):
        with pytest.raises(InvalidConfig, match=f"The setting {spec.name} is .*; allowed is "):
            checked({spec.name: value}, names())
    for bound in (spec.metadata["min"], spec.metadata["max"]):
        if bound is not None:
            assert checked({spec.name: bound}, names()) == {spec.name: bound}


@every_setting
def test_setting_has_its_column_with_the_same_default(spec: Field[Any]) -> None:
    column = Campaign.__table__.columns[spec.name]
    if spec.default is MISSING:
        assert column.default is None and not column.nullable
    elif spec.default is None:
        assert column.default is None and column.nullable
    else:
        assert column.default.arg == spec.default and type(spec.default) is column.type.python_type


@every_setting
def test_setting_is_kept_shown_and_archived(store: Store, people: People, spec: Field[Any]) -> None:
    admin = people["adm"]
    given = {} if spec.name in ("name", "archived") else {spec.name: other(spec)}
    usual = campaigns.create_campaign(store, admin, name="Usual", domain=load_domain("music"))
    made = campaigns.create_campaign(store, admin, name="Made", domain=load_domain("music"), **given)
    if spec.metadata["group"] == "campaign":
        campaigns.update_settings(store, admin, made, **{spec.name: other(spec)})
    expected = "Usual" if spec.default is MISSING else spec.default
    assert getattr(campaigns.get_campaign(store, admin, usual), spec.name) == expected
    assert getattr(campaigns.get_campaign(store, admin, made), spec.name) == other(spec)
    data = archive.export_campaign(store, admin, made)
    with zipfile.ZipFile(io.BytesIO(data)) as kept:
        assert json.loads(kept.read("campaign.json"))[spec.name] == other(spec)
    if spec.name == "name":
        campaigns.update_settings(store, admin, made, name="Gone")
    again = archive.import_campaign(store, admin, data, name=None if spec.name == "name" else "Again")
    assert getattr(campaigns.get_campaign(store, admin, again), spec.name) == other(spec)


@every_setting
def test_setting_can_be_changed_unless_it_is_given_once(store: Store, people: People, spec: Field[Any]) -> None:
    made = campaigns.create_campaign(store, people["adm"], name="Made", domain=load_domain("music"))
    if spec.metadata["group"] == "new":
        with pytest.raises(InvalidConfig, match=f"no setting '{spec.name}'; settings are name, "):
            campaigns.update_settings(store, people["adm"], made, **{spec.name: other(spec)})
    else:
        view = campaigns.update_settings(store, people["adm"], made, **{spec.name: other(spec)})
        assert getattr(view, spec.name) == other(spec)


def test_settings_of_a_new_campaign_have_a_flag_each() -> None:
    create = get_command(app).commands["campaign"].commands["create"]  # type: ignore[attr-defined]
    flags = {parameter.name: (parameter.opts, parameter.help) for parameter in create.params}
    for spec in settings.fields("rules", "new"):
        names_of, help = flags[spec.name]
        assert names_of == [f"--{(spec.metadata['flag'] or spec.name).replace('_', '-')}"]
        assert help.startswith(spec.metadata["help"])
    assert {"recipe_file", "archived"}.isdisjoint(flags)


def test_settings_of_both_forms_have_an_input_each(
    store: Store, people: People, campaign: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules, new = settings.fields("rules"), settings.fields("rules", "new")
    keys = {"campaigns": (f"campaigns:{{}}:{campaign}", rules), "new_campaign": ("new:0:{}", new)}
    for screen, (key, specs) in keys.items():
        test = open_screen(monkeypatch, store, screen, people["adm"])
        labels = {one.key: one.label for one in (*test.number_input, *test.text_input, *test.checkbox, *test.selectbox)}
        for spec in specs:
            percent = ", %" if spec.metadata.get("percent") else ""
            assert labels[key.format(spec.name)] == spec.metadata["label"] + percent
        assert test.selectbox(key=key.format("gazetteer")).options[0] == "none: the bundled DBpedia sample"
