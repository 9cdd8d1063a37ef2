"""A corpus of a domain: the pages of a corpus that stand in a part of the category tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crossner_core.errors import BadInput, Conflict, NotFound
from crossner_core.wikipedia.categories import Reached, TreeConfig, category_title
from crossner_core.wikipedia.category_tables import CategorySource
from crossner_core.wikipedia.columns import CATEGORY, KEPT
from crossner_core.wikipedia.corpus import Corpus, CorpusWriter
from crossner_core.wikipedia.manifest import Counts, Manifest, Parent


def select(
    corpus: Corpus,
    source: CategorySource,
    config: TreeConfig,
    out: Path,
    *,
    progress: Callable[[int, int], None] = lambda done, shards: None,
) -> Corpus:
    """Write the pages of the categories within reach as a corpus of their own, shard by shard.

    The category pages within reach come along, so that it can be selected from again. Doing it again gives the same
    bytes; a corpus that is there already is given back as it is. Raise BadInput if no page stands in the categories,
    Conflict if another corpus lies in `out`.
    """
    reached = source.graph.reach(config)
    parent = Parent(corpus.name, corpus.manifest.hash, describe(reached, source))
    if (there := _there(out)) is not None:
        if there.manifest.derived_from == parent:
            return there
        raise Conflict(f"{out} holds another corpus; name another folder or remove it.")
    members = source.members(reached)
    chosen = frozenset(reached.titles)
    pages = [_chosen(_read(corpus, "pages", at), members.mask, chosen) for at in range(len(corpus.manifest.shards))]
    if not any(_kept(table).num_rows for table in pages):
        raise BadInput(
            f"No page of the corpus {corpus.name} stands in the {len(reached.ids):,} categories within {config.depth} "
            f"steps of {', '.join(config.roots)}: go deeper, take other roots, or take the categories from the dump's "
            "SQL tables."
        )
    writer, shards, counts = CorpusWriter(out), [], Counts()
    for at, (shard, table) in enumerate(zip(corpus.manifest.shards, pages, strict=True)):
        rows = _read(corpus, "sentences", at)
        rows = rows.filter(pc.is_in(rows["page"], value_set=_kept(table)["page"].combine_chunks()))
        shards.append(writer.write_shard(shard.number, rows, table))
        counts += count(rows, table)
        progress(at + 1, len(pages))
    made = corpus.manifest
    return writer.finish(
        Manifest(
            made.source, made.config, counts, tuple(shards), made.gazetteer, made.domain, parent, made.truncated
        )
    )  # fmt: skip


def describe(reached: Reached, source: CategorySource) -> dict[str, Any]:
    """Say how pages were chosen, as plain JSON values."""
    circles = reached.graph.cycles(reached)
    return {
        "kind": "categories",
        "source": source.name,
        **{name: list(value) if isinstance(value, tuple) else value for name, value in asdict(reached.config).items()},
        "categories_by_depth": list(reached.by_depth),
        "circles": len(circles),
        "categories_in_circles": sum(map(len, circles)),
    }


def count(sentences: pa.Table, pages: pa.Table) -> Counts:
    """Count what CrossNER's Table 1 counts, and the rest of a manifest, from the rows themselves."""

    def total(column: str) -> int:
        return int(pc.sum(pages[column]).as_py() or 0)

    statuses = pages["status"].to_pylist()
    kept = _kept(pages)
    reasons = [why for why in kept["parser_reason"].to_pylist() if why]
    mentions = pc.sum(pc.list_value_length(sentences["mention_starts"])).as_py()
    return Counts(
        pages=pages.num_rows,
        kept=kept.num_rows,
        categories=statuses.count(CATEGORY),
        paragraphs=total("paragraphs"),
        sentences=sentences.num_rows,
        tokens=total("tokens"),
        links=total("links"),
        mentions=int(mentions or 0),
        fast=kept["parser"].to_pylist().count("fast"),
        fallback={why: reasons.count(why) for why in sorted(set(reasons))},
    )


def _chosen(pages: pa.Table, mask: Callable[..., Any], categories: frozenset[str]) -> pa.Table:
    statuses = np.array(pages["status"].to_pylist(), object)
    titles = pages["title"].to_pylist()
    named = np.fromiter((category_title(title.partition(":")[2]) in categories for title in titles), bool, len(titles))
    inside = mask(pages["page"].to_numpy(), titles)
    return pages.filter(pa.array(((statuses == KEPT) & inside) | ((statuses == CATEGORY) & named)))


def _kept(pages: pa.Table) -> pa.Table:
    return pages.filter(pc.equal(pages["status"], KEPT))


def _read(corpus: Corpus, kind: str, at: int) -> pa.Table:
    path = corpus.folder / kind / corpus.manifest.shards[at].file_name
    try:
        return pq.read_table(path, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{path} cannot be read: copy the corpus again, or make it anew. ({error})") from error


def _there(folder: Path) -> Corpus | None:
    try:
        return Corpus.open(folder)
    except NotFound:
        return None
    except BadInput:
        if (folder / "manifest.json").exists():
            raise
        return None  # begun and not finished: the shards are written again
