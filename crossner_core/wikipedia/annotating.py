"""Pre-annotation inside a shard: specified by paths and plain values, opened once per process."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from crossner_core.errors import EndpointUnavailable
from crossner_core.schema import Mention, Sentence

if TYPE_CHECKING:
    from crossner_core.gazetteer.candidates import PageContext


class PageAnnotator(Protocol):
    """Finds the mentions of one page's sentences, given in order."""

    def mentions(
        self, sentences: Sequence[Sentence], *, context: PageContext | None = None
    ) -> list[tuple[Mention, ...]]: ...


@dataclass(frozen=True, slots=True)
class AnnotatorSpec:
    """What a worker needs to pre-annotate.

    `gazetteer` is a folder, `hash` identifies its content, `domain` is the TOML text of a domain (None: mentions
    without types), `config` the settings of the pre-annotation as JSON. `opener` is `module:function`, which makes a
    `PageAnnotator` from such a spec.
    """

    gazetteer: str
    hash: str
    domain: str | None = None
    domain_name: str | None = None
    config: str = "{}"
    opener: str = "crossner_core.wikipedia.annotating:open_preannotator"


@lru_cache(maxsize=2)
def open_annotator(spec: AnnotatorSpec) -> PageAnnotator:
    """Open the annotator of a spec; the same object for the same spec."""
    module, _, function = spec.opener.partition(":")
    opener: Callable[[AnnotatorSpec], PageAnnotator] = getattr(importlib.import_module(module), function)
    return opener(spec)


def open_preannotator(spec: AnnotatorSpec) -> PageAnnotator:
    """Open the gazetteer and make a `Preannotator` from it."""
    from crossner_core.domains.loader import parse_domain
    from crossner_core.gazetteer.compiled import CompiledGazetteer
    from crossner_core.gazetteer.preannotate import PreannotationConfig, Preannotator

    source = CompiledGazetteer.open(Path(spec.gazetteer))
    domain = parse_domain(spec.domain, origin="the domain of the corpus") if spec.domain is not None else None
    return Preannotator([source], domain, PreannotationConfig(**json.loads(spec.config)), on_problem=_fail)


def _fail(problem: str) -> NoReturn:
    """Stop: a corpus must not silently lack what a source failed to return."""
    raise EndpointUnavailable(problem)
