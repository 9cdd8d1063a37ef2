"""Two curves on one figure never carry the same title."""

from __future__ import annotations

from dataclasses import replace

from crossner_core.training.recipe import Recipe
from workbench.reports.curves import Series, _told_apart


def series(recipe: Recipe, title: str = "direct · minilm") -> Series:
    return Series(title=title, family="", snapshot="ab", dataset=None, recipe=recipe.to_dict(), points=(), pending=0)


def test_curve_titles_name_the_fields_that_differ() -> None:
    short, long = (series(Recipe(max_epochs=epochs, seed=epochs)) for epochs in (4, 12))
    assert [one.title for one in _told_apart([short, long])] == [
        "direct · minilm · max epochs 4",
        "direct · minilm · max epochs 12",
    ]


def test_curve_titles_that_differ_already_stay() -> None:
    one, other = series(Recipe(max_epochs=4)), series(Recipe(max_epochs=12), "joint · minilm")
    assert _told_apart([one, other]) == (one, other)


def test_curve_titles_of_older_recipes_without_a_field_are_told_apart() -> None:
    new = series(Recipe())
    old = replace(new, recipe={name: value for name, value in new.recipe.items() if name != "patience"})
    assert [one.title for one in _told_apart([new, old])] == [
        "direct · minilm · patience 8",
        "direct · minilm · patience None",
    ]
