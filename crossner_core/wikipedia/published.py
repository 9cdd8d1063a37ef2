"""What CrossNER (Liu et al. 2021) printed about its corpora, to put beside our own counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedCorpus:
    """A domain's unlabelled corpus in CrossNER's table 1, and its levels' tokens as shares of it (table 3)."""

    domain: str
    paragraphs: int
    sentences: int
    tokens: int
    entity: float
    task: float
    integrated: float

    def ratio(self, level: str) -> float:
        """Return a level's share of the domain-level tokens as printed."""
        return 1.0 if level == "domain" else float(getattr(self, level))


PUBLISHED: dict[str, PublishedCorpus] = {
    one.domain: one
    for one in (
        PublishedCorpus("politics", 2_760_000, 9_070_000, 176_560_000, 0.37, 0.09, 0.56),
        PublishedCorpus("science", 1_720_000, 5_320_000, 98_500_000, 0.36, 0.04, 0.44),
        PublishedCorpus("music", 3_490_000, 9_820_000, 194_620_000, 0.49, 0.13, 0.76),
        PublishedCorpus("literature", 2_690_000, 9_170_000, 177_330_000, 0.49, 0.08, 0.65),
        PublishedCorpus("ai", 97_040, 287_620, 5_200_000, 0.52, 0.04, 0.60),
    )
}
