"""Entity scores: tags read as by conlleval, and as strict IOB2 under its own name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crossner_core.errors import BadInput
from crossner_core.records import Record
from crossner_core.schema import Span
from crossner_core.tags import spans_from_tags


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of entities: in gold (`support`), predicted, and both; all ratios lie in [0, 1], 0 if undefined."""

    support: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        both = self.support + self.predicted
        return 2 * self.correct / both if both else 0.0


@dataclass(frozen=True, slots=True)
class Scores(Record):
    """Micro scores over sentences: `overall` and `per_type` read tags as conlleval does, `strict_iob2` strictly.

    Conlleval (seqeval's default mode) lets an I- tag begin an entity; strict IOB2 (seqeval's strict mode) drops it.
    """

    overall: Score
    strict_iob2: Score
    per_type: Mapping[str, Score] = field(default_factory=dict)
    sentences: int = 0
    tokens: int = 0

    @property
    def precision(self) -> float:
        return self.overall.precision

    @property
    def recall(self) -> float:
        return self.overall.recall

    @property
    def f1(self) -> float:
        """Micro F1 in [0, 1], as conlleval computes it."""
        return self.overall.f1


def score_tags(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], types: Iterable[str] = ()) -> Scores:
    """Score predicted IOB2 tags sentence by sentence; `types` are listed even if they never occur."""
    _check_shapes(gold, predicted)
    lenient = (
        [spans_from_tags(tags, strict=False) for tags in gold],
        [spans_from_tags(t, strict=False) for t in predicted],
    )
    strict = [strict_spans(tags) for tags in gold], [strict_spans(tags) for tags in predicted]
    return Scores(
        overall=_total(_count(*lenient)),
        strict_iob2=_total(_count(*strict)),
        per_type=_per_type(_count(*lenient), types),
        sentences=len(gold),
        tokens=sum(len(tags) for tags in gold),
    )


def score_spans(
    gold: Sequence[Iterable[Span]], predicted: Sequence[Iterable[Span]], types: Iterable[str] = (), tokens: int = 0
) -> Scores:
    """Score predicted spans sentence by sentence; for spans both readings are equal."""
    if len(gold) != len(predicted):
        raise BadInput(f"{len(gold)} gold sentences but {len(predicted)} predicted ones; they must pair up.")
    counts = _count([tuple(spans) for spans in gold], [tuple(spans) for spans in predicted])
    return Scores(_total(counts), _total(counts), _per_type(counts, types), len(gold), tokens)


def strict_spans(tags: Sequence[str]) -> tuple[Span, ...]:
    """Read spans as strict IOB2 does: an I- tag that does not continue an entity of its type is dropped."""
    kept: list[str] = []
    for tag in tags:
        continues = bool(kept) and kept[-1] != "O" and kept[-1][2:] == tag[2:]
        kept.append(tag if not tag.startswith("I-") or continues else "O")
    return spans_from_tags(kept, strict=False)


_Counts = tuple["Counter[str]", "Counter[str]", "Counter[str]"]


def _count(gold: Sequence[tuple[Span, ...]], predicted: Sequence[tuple[Span, ...]]) -> _Counts:
    support: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    correct: Counter[str] = Counter()
    for wanted, got in zip(gold, predicted, strict=True):
        support.update(span.type for span in set(wanted))
        counts.update(span.type for span in set(got))
        correct.update(span.type for span in set(wanted) & set(got))
    return support, counts, correct


def _total(counts: _Counts) -> Score:
    return Score(*(sum(part.values()) for part in counts))


def _per_type(counts: _Counts, types: Iterable[str]) -> dict[str, Score]:
    listed = dict.fromkeys(types)
    names = [*listed, *sorted((set(counts[0]) | set(counts[1])) - set(listed))]
    return {name: Score(*(part[name] for part in counts)) for name in names}


def _check_shapes(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    if len(gold) != len(predicted):
        raise BadInput(f"{len(gold)} gold sentences but {len(predicted)} predicted ones; they must pair up.")
    for index, (wanted, got) in enumerate(zip(gold, predicted, strict=True)):
        if len(wanted) != len(got):
            raise BadInput(f"Sentence {index + 1} has {len(wanted)} gold tags but {len(got)} predicted ones.")
