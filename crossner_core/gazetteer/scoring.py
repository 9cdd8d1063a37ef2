"""How sure a suggestion is: by the way from the name to the resource, by its letters and by its rivals."""

from __future__ import annotations

from collections.abc import Mapping

from crossner_core.gazetteer.titles import title_of

# Ways from a name to a resource: those of a source that looks names up, then those of a compiled gazetteer alone.
WAY_WEIGHT: Mapping[str, float] = {
    "title": 0.9,
    "lowercased": 0.9,  # the first letter of a title is always a capital: the case rules weigh small letters
    "redirect": 0.8,
    "label": 0.8,
    "name": 0.65,
    "suffix": 0.65,
    "comma": 0.6,
    "possessive": 0.6,
    "plural": 0.55,
}
STATED = frozenset({"title", "redirect", "label", "name"})  # by the source; the others are made from these
DIRECT = frozenset({"title", "redirect", "lowercased"})  # the source says that the plain name means this resource
DIRECT_ODDS = 8.0  # for a direct way against another one, where no links were counted
LINK_SCORE, PAGE_SCORE = 0.95, 0.92
BY_REDIRECT = 0.99  # times a link's score
DESCRIBED = 0.5  # times a link's score
UNTYPED = 0.5  # times a link's score
SURNAME, RIVAL_SURNAME = 0.85, 0.5  # times a page name's score
SINGLE = 0.95  # times the score of a name of one word
LINKED_SHARE = 0.9


def scan_score(way: str, case: float, share: float, resource_share: float, words: int) -> float:
    """Weigh a name found in plain text; `share` is how likely its type is the right one among its rivals' types."""
    return WAY_WEIGHT[way] * case * share * float(resource_share**0.25) * (SINGLE if words == 1 else 1.0)


def link_score(surface: str, target: str, way: str, types: int) -> float:
    """Weigh a link by how its page was found, how many types that has, and whether its text names the page."""
    score = LINK_SCORE / max(types, 1)
    if way != "title":
        score *= BY_REDIRECT
    return score * DESCRIBED if is_described(surface, target) else score


def is_described(surface: str, target: str) -> bool:
    """Tell whether link text speaks of a page without naming it: `the country` for United States."""
    title = title_of(target)
    return surface.islower() and title[1:] != title[1:].lower() and surface != title
