"""A second look at the real defects of music's released data."""

from __future__ import annotations

from pathlib import Path

from crossner_core.domains import load_domain
from crossner_core.formats import open_file
from crossner_core.label_review.base import Desk, Gold, check
from crossner_core.options.label_review import LabelReviewOptions


def test_near_duplicates_find_every_conflicting_group_of_music(shared: Path) -> None:
    parts = {
        name: open_file(shared / "data" / "ner" / "music" / f"{name}.txt").labelled for name in ("train", "dev", "test")
    }
    items = tuple(item for part in parts.values() for item in part)
    splits = tuple(name for name, part in parts.items() for _ in part)
    groups: dict[tuple[str, ...], set[int]] = {}
    for number, item in enumerate(items):
        groups.setdefault(item.sentence.words, set()).add(number)
    conflicting = [group for group in groups.values() if len({items[at].spans for at in group}) > 1]
    found = check("near_duplicates").find(
        Gold(items, splits, load_domain("music").type_names), LabelReviewOptions(), Desk()
    )
    pairs = [{one.item, one.other} for one in found or () if one.kind == "conflict"]
    assert len(conflicting) == 27
    assert all(any(pair <= group for pair in pairs) for group in conflicting)
