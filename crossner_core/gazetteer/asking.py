"""Ask a compiled gazetteer about sentences of a built-in domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.domains import load_domain
from crossner_core.gazetteer.compiled import CompiledGazetteer
from crossner_core.gazetteer.preannotate import Preannotator

if TYPE_CHECKING:
    from crossner_core.schema import Sentence, Suggestion


def asking(folder: Path, domain: str) -> Callable[[Sequence[Sentence]], Sequence[Sequence[Suggestion]]]:
    """Return a function that queries a built gazetteer for the types of a built-in domain."""
    return Preannotator([CompiledGazetteer.open(folder)], load_domain(domain)).suggest
