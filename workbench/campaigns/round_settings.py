"""How a campaign's queue is ordered and when it retrains: the settings of its rounds, and their checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crossner_core.acquisition.selecting import strategy
from crossner_core.errors import InvalidConfig
from crossner_core.training.recipe import Recipe
from crossner_core.training.settings.self_training.plan import with_students

# How a round's students learn from so many gold sentences on, where its strategy adds them to the setting `direct`:
# from their teacher on, for a third of the epochs that they need from the encoder on. With 20 sentences these are too
# few steps; with 40 and more they did as well (docs/results/loop.md).
STUDENTS = {"self_training_fresh": False, "self_training_epochs": 5}
STUDENTS_FROM = 40
# A run on fewer gold sentences than this is short, as people wait for its first suggestions: it learns in smaller
# batches, which take half the time for the same F1, and has no students, which take several times as long and add
# little. Where students also learn from a gazetteer they add much, and its suggestions are there already.
FIRST_BELOW = 20
FIRST = {"batch_size": 4}


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """How a campaign's queue is ordered and when it retrains; an empty strategy keeps import order."""

    strategy: str = ""
    random_share: float = 0.2
    retrain_every: int = 0
    recipe: Mapping[str, Any] | None = None


def checked(text: str, random_share: float, retrain_every: int, recipe: Mapping[str, Any] | None) -> RoundSettings:
    """Check the settings of a campaign's rounds, whoever sends them; raise InvalidConfig for invalid values."""
    if not isinstance(text, str):
        raise InvalidConfig(f"The strategy is {text!r}; it must be a text.")
    if isinstance(random_share, bool) or not isinstance(random_share, (int, float)) or not 0 <= random_share <= 1:
        raise InvalidConfig(f"The random share is {random_share!r}; it must lie in [0, 1].")
    if type(retrain_every) is not int or not 0 <= retrain_every <= 100_000:
        raise InvalidConfig(f"retrain_every is {retrain_every!r}; it must be a whole number from 0 to 100,000.")
    if recipe is not None and not isinstance(recipe, Mapping):
        raise InvalidConfig(f"The recipe of a campaign's rounds is {recipe!r}; it must be an object of recipe fields.")
    kept = strategy(text).text if text.strip() else ""
    recipe_for(kept, recipe or {})
    return RoundSettings(kept, float(random_share), retrain_every, dict(recipe or {}) or None)


def recipe_for(text: str, changes: Mapping[str, Any], gold: int = STUDENTS_FROM) -> Recipe:
    """Return the recipe of a campaign's run on so much gold: its strategy may add training on the pool's text.

    Raises InvalidConfig for a recipe that cannot have that training, however much gold there is.
    """
    recipe = Recipe.from_dict({**(FIRST if gold < FIRST_BELOW else {}), **changes})
    if not text or not (chosen := strategy(text)).self_training:
        return recipe
    if recipe.setting == "direct" and gold >= STUDENTS_FROM:
        recipe = Recipe.from_dict({**STUDENTS, **changes})
    whole = with_students(recipe, gazetteer=chosen.gazetteer)
    return whole if chosen.gazetteer or gold >= FIRST_BELOW else recipe


def on_less_gold(text: str, changes: Mapping[str, Any]) -> tuple[tuple[int, Recipe], ...]:
    """Return the recipes of runs on less gold than later ones have, each with the number that it stays below."""
    less = [(below, recipe_for(text, changes, below - 1)) for below in (FIRST_BELOW, STUDENTS_FROM)]
    later = [*(recipe for _, recipe in less[1:]), recipe_for(text, changes)]
    return tuple(pair for pair, then in zip(less, later, strict=True) if pair[1] != then)


def on_more_gold(text: str, changes: Mapping[str, Any], recipe: Mapping[str, Any], gold: int) -> Mapping[str, Any]:
    """Return the recipe that a round's run on so much gold stands for: the one that later runs have, on more.

    It is the run's own if the settings that gave it have changed since. Raises InvalidConfig like `recipe_for`.
    """
    then, later = (recipe_for(text, changes, count).to_dict() for count in (gold, STUDENTS_FROM))
    moved = {name: value for name, value in later.items() if value != then[name]}
    return {**recipe, **moved} if all(recipe.get(name) == then[name] for name in moved) else recipe
