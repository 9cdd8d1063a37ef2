"""The errors of one model, or of one source of suggestions, against gold: filtered, counted, each with its sentence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from crossner_core.calibration.sources import SourceWeights
from crossner_core.errors import BadInput, NotFound
from crossner_core.evaluation.errors import KINDS, SpanError, count_errors, find_errors
from crossner_core.evaluation.scores import Score, score_spans
from crossner_core.schema import LabelledSentence, Span, Suggestion
from crossner_core.suggest.base import reads_sentences
from db import campaign_rows, layer_rows, run_rows
from db.engine import Session, Store
from db.tables import Campaign, SuggestionRow
from db.training_tables import Run
from workbench.accounts.access import enter
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import OVERSEERS
from workbench.data import layers
from workbench.data.values import best_suggestions, suggestion_of
from workbench.reports.curves import finished
from workbench.runs.kept_predictions import answers_of, measured_on
from workbench.suggestions.proposing import shown_to_people

SUGGESTED = "all suggestions"
"""The suggestions as people were shown them, whoever made them."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """A prediction source: a finished run, or a source of the campaign's suggestions; exactly one is set."""

    run_id: int | None = None
    source: str | None = None

    def __post_init__(self) -> None:
        if (self.run_id is None) == (self.source is None):
            raise BadInput(f"Name either a run or a source of suggestions; got {self.run_id} and {self.source}.")


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """One error with its sentence; `predicted_spans` are all that were predicted there.

    `sentence_id` is the campaign's row, if it exists.
    """

    kind: str
    gold: Span | None
    predicted: Span | None
    item: LabelledSentence
    predicted_spans: tuple[Span, ...]
    sentence_id: int | None

    def surface(self, span: Span | None) -> str:
        """The text of one of its spans, empty for none."""
        return self.item.sentence.surface(span.start, span.end) if span is not None else ""


@dataclass(frozen=True, slots=True)
class ErrorList:
    """Errors that fit a filter, `total` in number, and the totals of all errors, whatever the filter.

    `by_type` counts each kind by entity type: gold's, and the predicted one of what is spurious.
    """

    lines: tuple[ErrorLine, ...]
    total: int
    score: Score
    sentences: int
    counts: Mapping[str, int]
    by_type: Mapping[str, Mapping[str, int]]


def speakers(store: Store, actor: Actor, campaign_id: int) -> tuple[Speaker, ...]:
    """Return the prediction sources of a campaign: finished runs, newest first, then sources of suggestions."""
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        runs = run_rows.listed(session, campaign_id=campaign_id, states=("done",))
        sources = _sources(session, campaign_id)
        shown = [Speaker(source=SUGGESTED)] if len(sources) > 1 else []
        return (*(Speaker(run_id=run.id) for run in runs), *shown, *(Speaker(source=source) for source in sources))


def splits_of(store: Store, actor: Actor, campaign_id: int, speaker: Speaker) -> tuple[str, ...]:
    """Return the splits that have predictions and gold, the one to look at first ahead.

    Test comes last: once its errors guide changes, it is no longer a test.
    """
    require(actor, *OVERSEERS)
    with store.read() as session:
        enter(session, actor, campaign_id, *OVERSEERS)
        if speaker.run_id is not None:
            splits = set(measured_on(_run_of(session, actor, campaign_id, speaker.run_id)))
        else:
            splits = layer_rows.gold_splits(session, campaign_id)
        return tuple(split for split in ("dev", "pool", "test") if split in splits)


def errors_of(
    store: Store,
    actor: Actor,
    campaign_id: int,
    speaker: Speaker,
    *,
    split: str,
    kinds: Collection[str] = (),
    types: Collection[str] = (),
    text: str = "",
    offset: int = 0,
    limit: int = 100,
) -> ErrorList:
    """Return the errors of a prediction source on a split, filtered by kind, type (of either span) and text.

    An empty filter lets everything through. Raises BadInput for an unknown kind, or if no predictions were kept.
    """
    require(actor, *OVERSEERS)
    unknown = sorted(set(kinds) - set(KINDS))
    if unknown:
        raise BadInput(f"There is no kind of error {unknown[0]!r}; there are {', '.join(KINDS)}.")
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *OVERSEERS)
        if speaker.run_id is not None:
            answers = answers_of(session, _run_of(session, actor, campaign_id, speaker.run_id), split)
            items, predicted = answers.items, answers.predicted
        else:
            items, predicted = _suggested(session, campaign, str(speaker.source), split)
        errors = find_errors([item.spans for item in items], predicted)
        fitting = [error for error in errors if _fits(error, items, kinds, types, text.strip().casefold())]
        listed = fitting[max(offset, 0) : max(offset, 0) + limit]
        hashes = list(dict.fromkeys(items[error.sentence].sentence.content_hash for error in listed))
        rows = campaign_rows.ids_of(session, campaign_id, hashes)
    lines = [
        ErrorLine(
            error.kind,
            error.gold,
            error.predicted,
            items[error.sentence],
            predicted[error.sentence],
            rows.get(items[error.sentence].sentence.content_hash),
        )
        for error in listed
    ]
    score = score_spans([item.spans for item in items], predicted).overall
    return ErrorList(tuple(lines), len(fitting), score, len(items), count_errors(errors), _by_type(errors))


def _run_of(session: Session, actor: Actor, campaign_id: int, run_id: int) -> Run:
    run = finished(session, actor, run_id)
    if run.campaign_id != campaign_id:
        raise NotFound(f"Run {run_id} does not belong to this campaign; choose one of its runs.")
    return run


def _fits(
    error: SpanError, items: Sequence[LabelledSentence], kinds: Collection[str], types: Collection[str], text: str
) -> bool:
    sentence = items[error.sentence].sentence
    named = not text or text in sentence.text.casefold() or text in sentence.id.casefold()
    return named and (not kinds or error.kind in kinds) and (not types or bool(error.types & set(types)))


def _by_type(errors: Iterable[SpanError]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for error in errors:
        span = error.gold or error.predicted
        assert span is not None, "an error has a gold or a predicted span"
        row = counts.setdefault(span.type, dict.fromkeys(KINDS, 0))
        row[error.kind] += 1
    return dict(sorted(counts.items(), key=lambda pair: (-sum(pair[1].values()), pair[0])))


def _sources(session: Session, campaign_id: int) -> list[str]:
    """Return the sources of suggestions, gazetteers and links first, then models."""
    sources = layer_rows.suggestion_sources(session, campaign_id)
    return sorted(sources, key=lambda source: (reads_sentences(source), source))


def _suggested(
    session: Session, campaign: Campaign, source: str, split: str
) -> tuple[tuple[LabelledSentence, ...], tuple[tuple[Span, ...], ...]]:
    """Return the gold sentences of a split that have been pre-annotated, and what the source suggests in each."""
    rows = layer_rows.suggestions(session, campaign.id)
    reached = {row.id for row in layer_rows.marks(session, campaign.id) if row.preannotated}
    reached |= rows.keys()  # a model may have been the first to suggest something
    gold = [item for item in layers.gold(session, campaign.id) if item.split == split and item.sentence_id in reached]
    shown = shown_to_people(campaign) if source == SUGGESTED else partial(_alone, source)
    suggested = (shown(rows.get(item.sentence_id, ())) for item in gold)
    return tuple(item.labelled for item in gold), tuple(tuple(best.span for best in some) for some in suggested)


def _alone(source: str, rows: Iterable[SuggestionRow]) -> tuple[Suggestion, ...]:
    """Return the suggestions of one source, whatever its weight."""
    return best_suggestions((suggestion_of(row) for row in rows if row.source == source), SourceWeights())
