"""The settings of a campaign, each declared in one place: forms, flags, checks, archives and views are made from it."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.folders import is_name
from crossner_core.options.base import option

_TRUTH = "true or false"
OPEN_RULES = ("ask", "accept", "refuse")
CONFIRM_RULES = ("doubted", "all", "none")


def _is_address(value: str) -> bool:
    return re.fullmatch(r"https?://\S+", value) is not None


def setting(
    default: Any, label: str, help: str, *, flag: str = "", group: str = "rules", empty: str = "none", **more: Any
) -> Any:
    """Make a field of `CampaignSettings`: an `option` with its label in a form and its flag.

    Settings of the group `rules` are asked in both forms and can be changed; those of the group `new` are given once,
    when the campaign is made; `name` and `archived`, of the group `campaign`, have inputs of their own. A text may have
    a check, `fits`, what it allows in words, `allowed`, what a form shows for none, `empty`, or `choices`; a share is
    shown in percent where `percent` is set.
    """
    bounds = {key: more.pop(key) for key in ("min", "max") if key in more}
    shown = {"label": label, "flag": flag, "empty": empty}
    metadata = {**option(default, help, group=group, **bounds).metadata, **shown, **more}
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class CampaignSettings:
    """The rules of a campaign; all but `seed` can be changed."""

    name: str = setting(
        MISSING, "Name", "Name of the campaign.", group="campaign",
        fits=lambda value: 0 < len(value) <= 100, allowed="1 to 100 characters",
    )  # fmt: skip
    blind_share: float = setting(
        0.1,
        "Blind share",
        "Share of sentences that annotator 2 annotates without annotator 1's spans: they measure real agreement.",
        flag="blind",
        min=0,
        max=1,
        percent=True,
    )
    control_share: float = setting(
        0.1, "Control share",
        "Share of sentences whose suggestions are withheld: they show what suggestions change in people's work.",
        flag="control", min=0, max=1, percent=True,
    )  # fmt: skip
    lease_minutes: int = setting(
        30, "Lease, minutes", "Minutes until the sentence of an inactive person is free for others.",
        min=1, max=7 * 24 * 60,
    )  # fmt: skip
    seed: int = setting(0, "Seed", "Random seed of the campaign.", group="new", min=0, max=2**31 - 1)
    endpoint: str | None = setting(
        None, "SPARQL endpoint",
        "SPARQL endpoint, such as https://dbpedia.org/sparql, queried for names that the gazetteer lacks; default: "
        "the bundled sample.",
        fits=_is_address, allowed="an address that begins with http:// or https://, or nothing",
    )  # fmt: skip
    gazetteer: str | None = setting(
        None, "Gazetteer", "Compiled gazetteer whose names are looked up first (see workbench gazetteer list).",
        fits=is_name, allowed="the name of a compiled gazetteer (see workbench gazetteer list), or nothing",
        empty="none: the bundled DBpedia sample",
    )  # fmt: skip
    suggestions_on: bool = setting(
        True, "Show suggestions to annotator 1", "Whether annotator 1 sees what links, gazetteers and models suggest."
    )
    hint_below: float = setting(
        0.4, "Hints below", "Proposals with a lower probability are shown as hints.", min=0, max=1, percent=True
    )
    model_floor: float = setting(
        0.3,
        "Models suggest from dev F1",
        "Dev F1 from which a new model suggests without being asked to; 0: always.",
        min=0,
        max=1,
        percent=True,
    )
    model_gain: float = setting(
        0.0,
        "New model better by",
        "How much higher a new model's dev F1 must be than that of the model that suggests now.",
        min=0,
        max=1,
        percent=True,
    )
    model_error: float = setting(
        0.15,
        "Models suggest up to calibration error",
        "Calibration error on dev up to which a new model suggests without being asked to; one whose probabilities "
        "were not calibrated does not. 1: always.",
        min=0,
        max=1,
        percent=True,
    )
    open_at_submit: str = setting(
        "ask", "Open suggestions at submit",
        "What a submit does with suggestions that annotator 1 has not decided: ask, accept or refuse. Accept asks "
        "about those below the least probability to accept unseen.",
        choices=OPEN_RULES, fits=OPEN_RULES.__contains__, allowed=", ".join(OPEN_RULES),
    )  # fmt: skip
    accept_from: float = setting(
        0.8, "Accept unseen from",
        "Least probability of a suggestion that Accept all, or a rule, accepts; those below stay open.",
        min=0, max=1, percent=True,
    )  # fmt: skip
    confirm: str = setting(
        "doubted", "Annotator 2 confirms",
        "Which of annotator 1's spans annotator 2 confirms one by one: doubted (new, rare or doubted ones, and a "
        "share of the others), all or none.",
        choices=CONFIRM_RULES, fits=CONFIRM_RULES.__contains__, allowed=", ".join(CONFIRM_RULES),
    )  # fmt: skip
    confirm_share: float = setting(
        0.1, "Share of the other spans to confirm",
        "Share of spans that are neither new, rare nor doubted, drawn from seed and place.", min=0, max=1, percent=True,
    )  # fmt: skip
    rare_below: int = setting(
        2, "Rare below, sentences",
        "A span is rare, and to be confirmed, if fewer other checked sentences have it with its type.",
        min=1, max=50,
    )  # fmt: skip
    doubt_below: float = setting(
        0.5, "Doubted below", "A span is doubted, and to be confirmed, if its suggestion has a lower probability.",
        min=0, max=1, percent=True,
    )  # fmt: skip
    linking: bool = setting(
        False, "Link spans to resources",
        "Whether a span can be linked to the DBpedia or Wikidata resource that it names, or to none (NIL).",
    )  # fmt: skip
    archived: bool = setting(False, "Archived", "An archived campaign accepts no more work.", group="campaign")


_FIELDS: dict[str, Field[Any]] = {spec.name: spec for spec in dataclasses.fields(CampaignSettings)}
_TYPES: dict[str, Any] = typing.get_type_hints(CampaignSettings)


def names(*groups: str) -> tuple[str, ...]:
    """Return the settings of these groups, of all where none is named, in their order."""
    return tuple(name for name, spec in _FIELDS.items() if not groups or spec.metadata["group"] in groups)


def fields(*groups: str) -> tuple[Field[Any], ...]:
    """Return the declarations of the settings of these groups."""
    return tuple(_FIELDS[name] for name in names(*groups))


def checked(values: Mapping[str, Any], allowed: Iterable[str]) -> dict[str, Any]:
    """Return the settings, texts stripped and empty ones None; raise InvalidConfig for one unknown or out of range."""
    known = tuple(allowed)
    if unknown := sorted(set(values) - set(known)):
        raise InvalidConfig(f"A campaign has no setting {unknown[0]!r}; settings are {', '.join(known)}.")
    return {name: _checked(name, value) for name, value in values.items()}


def _checked(name: str, value: Any) -> Any:
    spec, expected = _FIELDS[name], _TYPES[name]
    tidy = value.strip() if isinstance(value, str) else value
    if expected == str | None:
        tidy = tidy or None if isinstance(tidy, str) else tidy
        fits = tidy is None or (isinstance(tidy, str) and spec.metadata["fits"](tidy))
        allowed = spec.metadata["allowed"]
    elif expected is str:
        fits, allowed = isinstance(tidy, str) and spec.metadata["fits"](tidy), spec.metadata["allowed"]
    elif expected is bool:
        fits, allowed = isinstance(tidy, bool), _TRUTH
    else:
        low, high = spec.metadata["min"], spec.metadata["max"]
        number = isinstance(tidy, int if expected is int else int | float) and not isinstance(tidy, bool)
        fits = number and low <= tidy <= high
        allowed = f"a {'whole ' if expected is int else ''}number from {low} to {high}"
    if not fits:
        raise InvalidConfig(f"The setting {name} is {value!r}; allowed is {allowed}.")
    return tidy
