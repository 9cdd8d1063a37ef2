"""What domain-adaptive pre-training reads: texts, what is measured on, and what its provenance says of both."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crossner_core.adaptation.shares import share_of
from crossner_core.adaptation.texts import Texts, describe_files, labelled_texts, level_texts, text_files
from crossner_core.options.dapt import DaptOptions


@dataclass(frozen=True, slots=True)
class DaptSource:
    """Texts to learn from; `held_out` of its own, or None: a share of the texts. `provenance` is for `run_dapt`."""

    texts: Texts
    held_out: Texts | None
    provenance: Mapping[str, Any]


def from_level(
    folder: Path,
    domain: str,
    level: str,
    *,
    percent: float = 100.0,
    seed: int = 0,
    held_out: Sequence[Path] = (),
    last_line: str = "refuse",
    gazetteers: Path | None = None,
) -> DaptSource:
    """Read a share of a level of a pre-annotated Wikipedia corpus; raise BadInput, InvalidConfig or InvalidDomain.

    `gazetteers` may hold the one that annotated it: see `level_texts`.
    """
    from crossner_core.gazetteer.ontology import BUILTIN
    from crossner_core.wikipedia.corpus import Corpus
    from crossner_core.wikipedia.levels import DOMAIN, annotators_tree

    texts = level_texts(folder, domain, level, percent, seed, gazetteers=gazetteers)
    manifest = describe_files([folder / "manifest.json"])
    named = {"manifest": manifest, "domain": domain, "level": level, "percent": percent, "seed": seed}
    if level != DOMAIN:  # that one knows of no classes
        tree = annotators_tree(Corpus.open(folder), gazetteers)
        if tree.parents != BUILTIN.parents:
            classes = json.dumps(sorted((name, list(above)) for name, above in tree.parents.items()))
            named["classes"] = hashlib.sha256(classes.encode()).hexdigest()
    return DaptSource(texts, _files(held_out, last_line), {"corpus": named, "held_out": describe_files(held_out)})


def from_files(
    paths: Sequence[Path],
    options: DaptOptions,
    *,
    labelled: bool = False,
    percent: float = 100.0,
    seed: int = 0,
    held_out: Sequence[Path] = (),
    last_line: str = "refuse",
) -> DaptSource:
    """Read a share of text files, or of labelled files in any format; raise BadInput or InvalidConfig."""
    texts = labelled_texts(paths) if labelled else text_files(paths, last_line=last_line)
    aside = labelled_texts(held_out) if labelled and held_out else _files(held_out, last_line)
    named = describe_files(paths)
    corpus: Any = named
    if percent != 100:
        texts, aside = share_of(texts, aside, percent, options, seed)
        corpus = {"files": named, "percent": percent, "seed": seed}
    return DaptSource(texts, aside, {"corpus": corpus, "held_out": describe_files(held_out)})


def _files(paths: Sequence[Path], last_line: str) -> Texts | None:
    return text_files(paths, last_line=last_line) if paths else None
