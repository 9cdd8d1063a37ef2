"""Sets that cover the pool: k-centre, clusters of sentence embeddings, BADGE; and density."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossner_core.acquisition import signals
from crossner_core.acquisition.base import Order, Pool, Scores, choosing, scoring
from crossner_core.acquisition.vectors import farthest_first, mean_similarity, places
from crossner_core.options.base import Checked, option


def _embeddings(pool: Pool) -> np.ndarray:
    return np.asarray(pool.signals[signals.EMBEDDING], dtype=np.float32)


@choosing("k_centre", "Diversity (k-centre)", "Sener and Savarese 2018", needs=(signals.EMBEDDING,))
def k_centre(pool: Pool, count: int, config: Any, rng: np.random.Generator) -> Order:
    """Choose, one after the other, the sentence farthest from gold and from those chosen before."""
    return farthest_first(_embeddings(pool), count, pool.gold_embeddings, rng)


@choosing(
    "bert_km", "Clusters of sentences (BERT-KM)", "Yuan et al. 2020; Chang et al. 2021", needs=(signals.EMBEDDING,)
)
def bert_km(pool: Pool, count: int, config: Any, rng: np.random.Generator) -> Order:
    """Choose the sentence nearest to each centre of `count` clusters, large clusters first."""
    from sklearn.cluster import KMeans

    vectors, count = _embeddings(pool), min(count, len(pool))
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    clusters = KMeans(count, n_init=1, random_state=int(rng.integers(2**31))).fit(vectors)
    distances = np.linalg.norm(vectors - clusters.cluster_centers_[clusters.labels_], axis=1)
    sizes = np.bincount(clusters.labels_, minlength=count)
    nearest = [
        int(np.where(clusters.labels_ == cluster, distances, np.inf).argmin())
        for cluster in np.argsort(-sizes, kind="stable")
    ]
    return np.array(list(dict.fromkeys(nearest)), dtype=np.int64)


@choosing("badge", "BADGE: uncertain and diverse gradients", "Ash et al. 2020", needs=(signals.GRADIENT,))
def badge(pool: Pool, count: int, config: Any, rng: np.random.Generator) -> Order:
    """Choose by k-means++ on the head's gradients under the decoded tags."""
    from sklearn.cluster import kmeans_plusplus

    vectors, count = np.asarray(pool.signals[signals.GRADIENT], dtype=np.float64), min(count, len(pool))
    if count == 0:
        return np.zeros(0, dtype=np.int64)
    _, chosen = kmeans_plusplus(vectors, count, random_state=int(rng.integers(2**31)))
    return np.array(list(dict.fromkeys(chosen.tolist())), dtype=np.int64)


@dataclass(frozen=True)
class DensityOptions(Checked):
    """The weight of density relative to uncertainty."""

    power: float = option(1.0, "Uncertainty is multiplied by density to this power.", min=0.0, max=5.0)


@scoring(
    "density", "Uncertain and typical", "Settles and Craven 2008 (information density)",
    needs=(signals.ENTROPY, signals.EMBEDDING), config=DensityOptions,
)  # fmt: skip
def density(pool: Pool, config: DensityOptions, rng: np.random.Generator) -> Scores:
    """Return the rank by token entropy times the (weighted) rank by mean cosine to the pool."""
    typical = places(mean_similarity(_embeddings(pool)))
    entropy = places(np.asarray(pool.signals[signals.ENTROPY], dtype=np.float64))
    return np.asarray(entropy * typical**config.power)
