"""Which of the resources that a name may stand for is meant: by the page's links, its categories, the prior."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crossner_core.gazetteer.candidates import Option
from crossner_core.gazetteer.context import NO_SIGNALS, Signals
from crossner_core.gazetteer.scoring import DIRECT, DIRECT_ODDS, LINKED_SHARE, WAY_WEIGHT

_UNTYPED_ODDS = 0.25


@dataclass(frozen=True, slots=True)
class Choice:
    """The resource chosen, its entity type if the domain has one, and why.

    `share` in (0, 1] says how likely the type is the right one among the rivals', `resource_share` the same of the
    resource.
    """

    option: Option
    type: str | None
    share: float
    resource_share: float
    reason: str


def choose(options: Sequence[Option], signals: Signals = NO_SIGNALS, *, typed: bool = True) -> Choice:
    """Choose among one name's options; `typed` tells whether there is a domain whose types count.

    First what the page links to; then what the plain name means by its title or redirect; then what shares most words
    with the page's categories; then what has a type, by prior, by the way that led to it, and by its title. A plain
    name's own page without a type gives way to one that the categories speak for.
    """
    if len(options) == 1:
        return _chosen(options, options[0], signals, "the only page of this name")
    overlaps = [len(option.stems & signals.stems) if signals.stems else 0 for option in options]
    spoken = any(overlap for option, overlap in zip(options, overlaps, strict=True) if option.way not in DIRECT)

    def rank(at: int) -> tuple[bool, bool, int, float, int, float, str]:
        option, overlap = options[at], overlaps[at]
        direct = option.way in DIRECT and (bool(option.types) or not typed or bool(overlap) or not spoken)
        odds = WAY_WEIGHT[option.way] * (option.prior + 1) * (1.0 if option.types or not typed else _UNTYPED_ODDS)
        return (
            option.entity not in signals.linked,
            not direct,
            -overlap,
            -odds,
            len(option.types),
            -WAY_WEIGHT[option.way],
            option.entity,
        )

    order = sorted(range(len(options)), key=rank)
    best, second = rank(order[0]), rank(order[1])
    option = options[order[0]]
    return _chosen(options, option, signals, _reason(best, second, option, bool(overlaps[order[0]])))


def _reason(best: tuple[object, ...], second: tuple[object, ...], option: Option, overlap: bool) -> str:
    if best[0] != second[0]:
        return "the page links to it"
    if best[1] != second[1]:
        return "the plain name is its title" if option.way == "title" else "the plain name leads to it"
    if best[2] != second[2] and overlap:
        return "the page's categories speak of such a thing"
    return "the likeliest by links, type and way"


def why_lost(option: Option, winner: Choice) -> str:
    """Say in words why an option was not chosen."""
    if option.entity == winner.option.entity:
        return "the same page by another way"
    return f"{winner.option.entity} won: {winner.reason}"


def _chosen(options: Sequence[Option], option: Option, signals: Signals, reason: str) -> Choice:
    kind = option.types[0] if option.types else None
    if len(options) == 1:
        return Choice(option, kind, 1.0 / max(len(option.types), 1), 1.0, reason)
    odds = [_odds(one) for one in options]
    total = sum(odds)
    same = sum(
        odd / max(len(one.types), 1)
        for one, odd in zip(options, odds, strict=True)
        if kind is None or kind in one.types
    )
    share = same / total
    mine = sum(odd for one, odd in zip(options, odds, strict=True) if one.entity == option.entity) / total
    if option.entity in signals.linked:
        share, mine = max(share, LINKED_SHARE / max(len(option.types), 1)), max(mine, LINKED_SHARE)
    elif signals.stems & option.stems:
        share, mine = (share + 1.0 / max(len(option.types), 1)) / 2, (1 + mine) / 2
    return Choice(option, kind, share, mine, reason)


def _odds(option: Option) -> float:
    odds = WAY_WEIGHT[option.way] ** 2 * (option.prior + 1)
    return odds * DIRECT_ODDS if option.way in DIRECT and not option.prior else odds
