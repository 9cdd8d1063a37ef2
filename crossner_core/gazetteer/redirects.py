"""Redirects, followed to the page at their end."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import compress

import numpy as np

from crossner_core.gazetteer.columns import Hashes, Index, Names

CYCLIC = "redirects in a circle"
UNTYPED = "redirects to pages without a class"


class Redirects:
    """Redirects to known pages by the page's number, and those that may lead there by way of others.

    Only redirects whose target is a redirect itself are followed; of the others' sources the hashes are kept.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        self.sources, self.entities = Names(), array("I")
        self._waiting, self._targets = Names(), Names()
        self._every, self._wanted = Hashes(), Hashes()

    def add(self, sources: Sequence[str], targets: Sequence[str]) -> None:
        """Add redirects."""
        found = self._index.find(targets)
        known = found >= 0
        self._every.extend(sources)
        self.sources.extend(list(compress(sources, known)))
        self.entities.extend(found[known].tolist())
        open_ = list(compress(targets, ~known))
        self._waiting.extend(list(compress(sources, ~known)))
        self._targets.extend(open_)
        self._wanted.extend(open_)

    def follow(self) -> dict[str, int]:
        """Resolve what leads to a page by way of other redirects; return how many lead nowhere, by reason."""
        chained = self._wanted.among(self._every)
        skipped = {CYCLIC: 0, UNTYPED: int(len(chained) - np.count_nonzero(chained))}
        pairs = zip(self._waiting.drain(), self._targets.drain(), strict=True)
        steps = [pair for pair, is_chained in zip(pairs, chained.tolist(), strict=True) if is_chained]
        ends = self._ends({target for _, target in steps}) if steps else {}
        leads: dict[str, str] = {}
        for source, target in steps:
            leads.setdefault(source, target)
        for source, target in steps:
            at, seen = target, {source}
            while at not in ends and at in leads and at not in seen:
                seen.add(at)
                at = leads[at]
            if at in ends:
                self.sources.extend([source])
                self.entities.append(ends[at])
            else:
                skipped[CYCLIC if at in seen else UNTYPED] += 1
        self._every, self._wanted = Hashes(), Hashes()
        return skipped

    def _ends(self, wanted: set[str]) -> dict[str, int]:
        """Return the pages that redirects of these names lead to directly; the first of several."""
        found: dict[str, int] = {}
        for source, entity in zip(self.sources, self.entities, strict=True):
            if source in wanted:
                found.setdefault(source, entity)
        return found
