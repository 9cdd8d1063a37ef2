"""The category graph: reach, exclusion, circles, and titles that are not there."""

from __future__ import annotations

import numpy as np
import pytest

from crossner_core.errors import InvalidConfig, NotFound
from crossner_core.wikipedia.categories import CategoryGraph, TreeConfig, category_title

# child → parents
PARENTS = {
    "Choirs": ["Singing"],
    "Singing": ["Music"],
    "Sea shanties": ["Singing", "Seafaring"],
    "Ballads": ["Singing"],
    "Murder ballads": ["Ballads"],
    "Knots": ["Seafaring"],
    "Music": ["Culture"],
    "Seafaring": ["Culture"],
    "Anchors": ["Knots"],
}


@pytest.fixture(scope="module")
def graph() -> CategoryGraph:
    return CategoryGraph.from_parents(PARENTS)


def test_reach_goes_breadth_first_to_the_depth(graph: CategoryGraph) -> None:
    assert graph.reach(TreeConfig(("Music",), 0)).titles == ("Music",)
    found = graph.reach(TreeConfig(("Music",), 2))
    assert found.by_depth == (1, 1, 3)
    assert set(found.titles[2:]) == {"Choirs", "Sea shanties", "Ballads"}
    assert graph.reach(TreeConfig(("Music",), 9)).by_depth == (1, 1, 3, 1)
    depths = dict(zip(found.titles, found.depths.tolist(), strict=True))
    assert depths["Choirs"] == 2 and "Knots" not in depths


def test_a_category_has_its_least_depth(graph: CategoryGraph) -> None:
    found = graph.reach(TreeConfig(("Music", "Seafaring"), 3))
    assert dict(zip(found.titles, found.depths.tolist(), strict=True))["Sea shanties"] == 1


def test_an_excluded_category_takes_along_what_is_reached_only_through_it(graph: CategoryGraph) -> None:
    found = set(graph.reach(TreeConfig(("Culture",), 5, ("Singing",))).titles)
    assert found == {"Culture", "Music", "Seafaring", "Sea shanties", "Knots", "Anchors"}


def test_circles_end_the_walk_and_are_named() -> None:
    graph = CategoryGraph.from_parents(
        {"A": ["C"], "B": ["A"], "C": ["B"], "Self": ["Self", "A"], "Tail": ["B"], "X": ["Y"], "Y": ["X"]}
    )
    assert set(graph.reach(TreeConfig(("A",), 50)).titles) == {"A", "B", "C", "Self", "Tail"}
    assert graph.cycles() == (("A", "B", "C"), ("X", "Y"), ("Self",))
    assert graph.cycles(graph.reach(TreeConfig(("A",), 50))) == (("A", "B", "C"), ("Self",))
    assert graph.cycles(graph.reach(TreeConfig(("X",), 0))) == ()


def test_two_circles_with_a_bridge_are_two_groups() -> None:
    graph = CategoryGraph.from_parents({"B": ["A"], "A": ["B"], "C": ["B", "D"], "D": ["C"]})
    assert graph.cycles() == (("A", "B"), ("C", "D"))


def test_a_tree_has_no_circles(graph: CategoryGraph) -> None:
    assert graph.cycles() == ()


def test_what_is_said_twice_counts_once() -> None:
    assert CategoryGraph.from_parents([("A", ["B", "B"]), ("A", ["B"])]).edges == 1


@pytest.mark.parametrize("name", ["Category:Sea_shanties", "sea shanties", " category: Sea shanties"])
def test_find_takes_a_title_however_it_is_written(graph: CategoryGraph, name: str) -> None:
    assert graph.title(graph.find(name)) == "Sea shanties"


def test_an_unknown_root_names_similar_titles(graph: CategoryGraph) -> None:
    with pytest.raises(NotFound, match=r"'Sea shantys'.*similar are 'Sea shanties'"):
        graph.reach(TreeConfig(("Sea shantys",)))
    with pytest.raises(NotFound, match=r"'Ballad'.*'Ballads'"):
        graph.reach(TreeConfig(("Music",), 2, ("Ballad",)))


def test_a_root_cannot_be_excluded(graph: CategoryGraph) -> None:
    with pytest.raises(InvalidConfig, match="Music is both a root and excluded"):
        graph.reach(TreeConfig(("Music",), 2, ("Category:music",)))


@pytest.mark.parametrize(("roots", "depth"), [((), 1), (("Music",), -1)])
def test_config_refuses(roots: tuple[str, ...], depth: int) -> None:
    with pytest.raises(InvalidConfig):
        TreeConfig(roots, depth)


def test_one_step_down_gives_the_children(graph: CategoryGraph) -> None:
    below = graph.reach(TreeConfig(("Singing",), 1)).titles[1:]
    assert sorted(below) == ["Ballads", "Choirs", "Sea shanties"]


def test_category_title_keeps_other_colons() -> None:
    assert category_title("Star Rowers: the films") == "Star Rowers: the films"


def test_reach_agrees_with_a_plain_walk_on_random_graphs() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        edges = rng.integers(0, 40, (70, 2))
        parents: dict[str, list[str]] = {f"C{at}": [] for at in range(40)}
        for child, parent in edges.tolist():
            parents[f"C{child}"].append(f"C{parent}")
        graph = CategoryGraph.from_parents(parents)
        depths, level = {"C0": 0}, ["C0"]
        for depth in range(1, 4):
            level = [name for name in parents if name not in depths and set(parents[name]) & set(level)]
            level = [name for name in level if name not in ("C1", "C2")]
            depths.update(dict.fromkeys(level, depth))
        found = graph.reach(TreeConfig(("C0",), 3, ("C1", "C2")))
        assert dict(zip(found.titles, found.depths.tolist(), strict=True)) == depths
