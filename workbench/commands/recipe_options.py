"""Flags of recipes: one for every field, which `crossner_core.command_line` makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer

from crossner_core.command_line import RECIPE_PANELS, with_flags
from crossner_core.training.recipe import Recipe, without_effect
from workbench.campaigns import settings
from workbench.campaigns.settings import CampaignSettings


def takes_recipe(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for every field of Recipe; it is called with `recipe`, made and checked."""

    def make(values: dict[str, Any]) -> Recipe:
        recipe = Recipe.from_dict(values)
        for line in without_effect(recipe, values):
            typer.echo(line, err=True)
        return recipe

    return with_flags(command, Recipe, "recipe", make, panels=RECIPE_PANELS)


def takes_changes(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for every field of Recipe but the seed; it is called with `changes`, those given."""

    def make(values: dict[str, Any]) -> dict[str, Any]:
        Recipe.from_dict(values)  # a value out of range is refused before anything begins
        return values

    return with_flags(command, Recipe, "changes", make, leave=("seed",), panels=RECIPE_PANELS)


def takes_settings(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for every setting of a new campaign; it is called with `settings`, those given."""
    asked = settings.names("rules", "new")
    leave = tuple(name for name in settings.names() if name not in asked)
    return with_flags(command, CampaignSettings, "settings", dict, leave=leave, file=False)
