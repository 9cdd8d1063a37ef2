"""Sample sentences of a corpus into a campaign: filtered, drawn by a seed, no near-duplicates, with their origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crossner_core.domains import Domain
from crossner_core.errors import BadInput, InvalidConfig, NotFound
from crossner_core.schema import Mention, Sentence, Suggestion
from crossner_core.suggest.gazetteer import GAZETTEER
from db import campaign_rows, layer_rows, suggestion_rows
from db.engine import Session, Store
from db.tables import SPLITS, Campaign
from workbench.accounts import audit
from workbench.accounts.access import enter, refuse_archived
from workbench.accounts.actors import Actor, require
from workbench.accounts.roles import KEEPERS
from workbench.campaigns.domains import domain_of, find_domain
from workbench.campaigns.sentences import append
from workbench.data.corpora import open_corpus
from workbench.data.exchange import suggest_new
from workbench.data.values import sentence_of, suggestion_values

if TYPE_CHECKING:
    from crossner_core.near_duplicates import NearDuplicates
    from crossner_core.wikipedia.corpus import Corpus, CorpusSentence

INTO: tuple[str, ...] = SPLITS
"""Where sampled sentences can go."""
PREVIEWED = 12
PREVIEW_ROWS = 200_000
"""Maximum number of a corpus's sentences that a preview considers; sampling considers all."""
PREVIEW_TRIES = 5_000
MOST = 20_000
_RESERVE = 500_000  # how many of the fitting sentences are kept in memory: those that would be drawn first
_COLUMNS = ("title", "section", "text", "token_starts", "link_starts", "mention_types")


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Which sentences of a corpus a campaign gets, and how many."""

    count: int = field(default=100, metadata={"doc": "sentences to add"})
    seed: int = field(default=0, metadata={"doc": "random seed; the same seed draws the same sentences"})
    split: str = field(default="pool", metadata={"doc": "where they go: pool, dev or test"})
    min_tokens: int = field(default=5, metadata={"doc": "minimum number of tokens in a sentence"})
    max_tokens: int = field(default=80, metadata={"doc": "maximum number of tokens in a sentence"})
    min_links: int = field(default=0, metadata={"doc": "minimum number of links in a sentence"})
    min_mentions: int = field(
        default=0, metadata={"doc": "minimum number of pre-annotated entities (of the chosen types, if any)"}
    )
    types: tuple[str, ...] = field(default=(), metadata={"doc": "entity types that count; none: all"})
    text: str = field(default="", metadata={"doc": "the sentence contains this; case is ignored"})
    title: str = field(default="", metadata={"doc": "the page's title contains this; case is ignored"})
    section: str = field(default="", metadata={"doc": "the heading above contains this; case is ignored"})
    per_page: int = field(default=0, metadata={"doc": "maximum number of sentences from one page; 0: no limit"})
    threshold: float = field(
        default=0.8, metadata={"doc": "leave out what shares this fraction of its word trigrams with another (Jaccard)"}
    )

    def __post_init__(self) -> None:
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:
                raise InvalidConfig(f"Sampling: {name} is {value}; allowed is {low} to {high}.")
        if self.min_tokens > self.max_tokens:
            raise InvalidConfig(f"Sampling: min_tokens {self.min_tokens} is above max_tokens {self.max_tokens}.")
        if self.split not in SPLITS:
            raise InvalidConfig(f"Sampling: there is no split {self.split!r}; splits are {', '.join(SPLITS)}.")

    @property
    def mentions(self) -> int:
        """Entities that a sentence must have; choosing types alone asks for one."""
        return max(self.min_mentions, int(bool(self.types)))


_RANGES: tuple[tuple[str, float, float], ...] = (
    ("count", 1, MOST), ("seed", 0, 2**32 - 1), ("min_tokens", 1, 10_000), ("max_tokens", 1, 10_000),
    ("min_links", 0, 1000), ("min_mentions", 0, 1000), ("per_page", 0, 10_000), ("threshold", 0.3, 1.0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SamplingReport:
    """Outcome of sampling from a corpus.

    `left_out` counts the sentences that each filter removed, in the order of the filters; `repeated` those among the
    drawn ones that the campaign already has, that nearly repeat another, or whose page is at its limit. `considered`
    of `total` sentences were looked at. A preview that stopped before it had all it asked for is not `complete`.
    """

    total: int
    considered: int
    left_out: Mapping[str, int]
    fitting: int
    repeated: Mapping[str, int]
    added: int
    suggestions: int = 0
    note: str = ""
    complete: bool = True

    def __str__(self) -> str:
        out = {name: many for name, many in {**self.left_out, **self.repeated}.items() if many}
        why = ", ".join(f"{name} {many:,}" for name, many in out.items())
        return f"{self.added:,} sentences added; {self.considered:,} considered, {self.fitting:,} fit the filters" + (
            f"; left out: {why}" if why else ""
        )


@dataclass(frozen=True, slots=True)
class SamplingPreview:
    """What a plan would add: the report (`added` is how many it would be) and the first of them."""

    report: SamplingReport
    first: tuple[CorpusSentence, ...]


def preview(store: Store, actor: Actor, campaign_id: int, corpus: str, plan: SamplingPlan) -> SamplingPreview:
    """Draw as `sample_into_campaign` does and add nothing; of a large corpus only the first part is looked at."""
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        known = _sentences(session, campaign_id)
        domain = domain_of(campaign)
    chosen, report = draw_quickly(open_corpus(store, actor, corpus), plan, domain, known)
    return SamplingPreview(report, tuple(chosen[:PREVIEWED]))


def sample_into_campaign(
    store: Store, actor: Actor, campaign_id: int, corpus: str, plan: SamplingPlan
) -> SamplingReport:
    """Add sentences of a corpus to a campaign, all of the drawn ones or none.

    Links are kept, and the origin of each sentence as metadata. The corpus's own mentions become suggestions if their
    types are the campaign's; otherwise pre-annotation runs as after an import. The same corpus, plan and
    campaign give the same sentences. For researchers and admins.
    """
    require(actor, *KEEPERS)
    with store.read() as session:
        _, campaign = enter(session, actor, campaign_id, *KEEPERS)
        refuse_archived(campaign)
        known, domain = _sentences(session, campaign_id), domain_of(campaign)
    opened = open_corpus(store, actor, corpus)
    chosen, report = draw(opened, plan, domain, known)
    with store.write() as session:
        current, campaign = enter(session, actor, campaign_id, *KEEPERS)
        added, suggested = add_drawn(session, current, campaign, opened, chosen, split=plan.split)
        about = ("corpus", corpus)
        audit.record(session, current, "sample_into_campaign", about, campaign.id, split=plan.split, added=added)
        endpoint, wants = campaign.endpoint, campaign.suggestions_on
    note = suggest_new(store, actor, campaign_id, endpoint, added) if wants and suggested is None and added else ""
    return replace(report, added=added, suggestions=suggested or 0, note=note)


def add_drawn(
    session: Session, actor: Actor, campaign: Campaign, corpus: Corpus, chosen: Sequence[CorpusSentence], *, split: str
) -> tuple[int, int | None]:
    """Add drawn sentences within a transaction whose caller has authorised the actor; return how many were added.

    Beside it: how many of the corpus's own mentions became suggestions, None where their types are not the campaign's.
    """
    with_own = campaign.suggestions_on and speaks_of(session, corpus, domain_of(campaign))
    done = append(session, actor, campaign, [_with_origin(drawn, corpus) for drawn in chosen], split=split)
    return done.added, _add_mentions(session, campaign, chosen) if with_own else None


def _sentences(session: Session, campaign_id: int) -> list[Sentence]:
    return [sentence_of(row) for row in layer_rows.sentences(session, campaign_id)]


def _check_types(plan: SamplingPlan, corpus: Corpus, domain: Domain) -> None:
    types = domain.type_names
    unknown = [name for name in plan.types if name not in types]
    if unknown:
        raise InvalidConfig(f"Sampling: there is no entity type {unknown[0]!r}; types are {', '.join(types)}.")
    if plan.mentions and corpus.manifest.domain is None:
        raise BadInput(
            f"The corpus {corpus.name} has no typed mentions to choose by: build it with --gazetteer and --domain, "
            "or set no types and no min_mentions."
        )


def speaks_of(session: Session, corpus: Corpus, mine: Domain) -> bool:
    """Return whether the corpus was pre-annotated in a domain, or in one whose types it all has."""
    asked = corpus.manifest.domain
    if asked is None or asked == mine.name:
        return asked is not None
    try:
        return set(find_domain(session, asked).type_names) <= set(mine.type_names)
    except NotFound:
        return False


def draw_quickly(
    corpus: Corpus, plan: SamplingPlan, domain: Domain, known: Sequence[Sentence] = ()
) -> tuple[list[CorpusSentence], SamplingReport]:
    """Draw as `draw` does; of a large corpus only the first part is looked at."""
    return draw(corpus, plan, domain, known, most_rows=PREVIEW_ROWS, most_tries=PREVIEW_TRIES)


def draw(
    corpus: Corpus,
    plan: SamplingPlan,
    domain: Domain,
    known: Sequence[Sentence] = (),
    *,
    most_rows: int | None = None,
    most_tries: int = _RESERVE,
) -> tuple[list[CorpusSentence], SamplingReport]:
    """Draw in the order of the seed; a sentence that repeats another, or a known one, is replaced by the next."""
    from crossner_core.near_duplicates import NearDuplicates

    _check_types(plan, corpus, domain)
    near = NearDuplicates(plan.threshold)
    for sentence in known:
        near.add(sentence)
    hashes, pages = {row.content_hash for row in known}, Counter[int]()
    left_out, order, considered = _fitting(corpus, plan, most_rows)
    fitting = considered - sum(left_out.values())
    chosen: list[CorpusSentence] = []
    repeated = dict.fromkeys(("there already", "nearly the same", "enough of that page"), 0)
    for candidate in _in_order(corpus, order[:most_tries], step=plan.count * 2):
        if why := _repeats(candidate, plan, hashes, pages, near):
            repeated[why] += 1
            continue
        chosen.append(candidate)
        if len(chosen) == plan.count:
            break
    complete = len(chosen) == plan.count or (considered == len(corpus) and fitting <= most_tries)
    report = SamplingReport(len(corpus), considered, left_out, fitting, repeated, len(chosen), complete=complete)
    return chosen, report


def _in_order(corpus: Corpus, order: np.ndarray, *, step: int) -> Iterator[CorpusSentence]:
    for first in range(0, len(order), step):
        yield from corpus.rows(int(row) for row in order[first : first + step])


def _repeats(
    candidate: CorpusSentence, plan: SamplingPlan, hashes: set[str], pages: Counter[int], near: NearDuplicates
) -> str | None:
    """Return why a drawn sentence is left out, None if it stays; then it counts for those after it."""
    page = candidate.sentence.meta["page"]
    if plan.per_page and pages[page] >= plan.per_page:
        return "enough of that page"
    if candidate.sentence.content_hash in hashes:
        return "there already"
    if not near.add_if_new(candidate.sentence):
        return "nearly the same"
    hashes.add(candidate.sentence.content_hash)
    pages[page] += 1
    return None


def _fitting(corpus: Corpus, plan: SamplingPlan, most_rows: int | None) -> tuple[dict[str, int], np.ndarray, int]:
    """Return how many each filter removes, and the rows that fit in the order they are drawn."""
    rng = np.random.default_rng(plan.seed)
    left_out = dict.fromkeys(("length", "links", "mentions", "text", "title", "section"), 0)
    drawn_rows, kept, position = [(np.zeros(0, np.int64), np.zeros(0))], 0, 0
    for batch in corpus.tables(_COLUMNS):
        if most_rows is not None and position >= most_rows:
            break
        drawn = rng.random(batch.num_rows)  # for every row, so that a filter does not change the others' order
        fits = np.ones(batch.num_rows, bool)
        for name, passes in _filters(batch, plan):
            left_out[name] += int((fits & ~passes).sum())
            fits &= passes
        drawn_rows.append((position + np.flatnonzero(fits), drawn[fits]))
        kept, position = kept + int(fits.sum()), position + batch.num_rows
        if kept > 2 * _RESERVE:
            drawn_rows, kept = [_soonest(drawn_rows)], _RESERVE
    return left_out, _soonest(drawn_rows)[0], position


def _soonest(drawn_rows: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that are drawn first, in that order, with their keys."""
    rows, keys = (np.concatenate(part) for part in zip(*drawn_rows, strict=True))
    order = np.argsort(keys, kind="stable")[:_RESERVE]
    return rows[order], keys[order]


def _filters(batch: Any, plan: SamplingPlan) -> Iterator[tuple[str, np.ndarray]]:
    """Yield each filter that the plan sets with the rows that pass it."""
    import pyarrow.compute as pc

    def lengths(column: str) -> np.ndarray:
        return np.asarray(pc.fill_null(pc.list_value_length(batch.column(column)), 0).to_numpy(zero_copy_only=False))

    tokens = lengths("token_starts")
    yield "length", (tokens >= plan.min_tokens) & (tokens <= plan.max_tokens)
    if plan.min_links:
        yield "links", lengths("link_starts") >= plan.min_links
    if plan.mentions:
        yield "mentions", _typed(batch.column("mention_types"), plan.types) >= plan.mentions
    for name in ("text", "title", "section"):
        if wanted := getattr(plan, name).strip():
            passes = pc.match_substring(batch.column(name), wanted, ignore_case=True)
            yield name, np.asarray(pc.fill_null(passes, False).to_numpy(zero_copy_only=False))


def _typed(column: Any, types: Sequence[str]) -> np.ndarray:
    """Count in each row the mentions of these types, of any type where none is named."""
    import pyarrow as pa
    import pyarrow.compute as pc

    flat = pc.list_flatten(column)
    counted = pc.is_in(flat, value_set=pa.array(types, pa.string())) if types else pc.not_equal(flat, "")
    parents = pc.list_parent_indices(column).to_numpy(zero_copy_only=False)
    weights = np.asarray(counted.to_numpy(zero_copy_only=False), float)
    return np.bincount(parents, weights=weights, minlength=len(column))


def _with_origin(drawn: CorpusSentence, corpus: Corpus) -> Sentence:
    origin = {"corpus": corpus.name, "corpus_hash": corpus.manifest.hash}
    return replace(drawn.sentence, meta={**drawn.sentence.meta, **origin})


def _add_mentions(session: Session, campaign: Campaign, chosen: Sequence[CorpusSentence]) -> int:
    """Write the mentions of the campaign's types as suggestions; return how many."""
    types = domain_of(campaign).type_names
    mentions = {drawn.sentence.content_hash: drawn.mentions for drawn in chosen if drawn.mentions is not None}
    ids = campaign_rows.ids_of(session, campaign.id, list(mentions))
    still = suggestion_rows.still_open(session, campaign.id, ids.values())
    ids = {content_hash: id_ for content_hash, id_ in ids.items() if id_ in still}
    rows = [
        suggestion_values(id_, suggestion)
        for content_hash, id_ in sorted(ids.items(), key=lambda pair: pair[1])
        for suggestion in own_suggestions(mentions[content_hash], types)
    ]
    suggestion_rows.replace_suggestions(session, ids.values(), rows, kinds=GAZETTEER.kinds)
    suggestion_rows.mark_preannotated(session, ids.values())
    return len(rows)


def own_suggestions(mentions: Sequence[Mention], types: Sequence[str]) -> list[Suggestion]:
    """Return the mentions of these types as suggestions."""
    return [_suggestion(mention, mention.type) for mention in mentions if mention.type in types and mention.type]


def _suggestion(mention: Mention, kind: str) -> Suggestion:
    from crossner_core.gazetteer.candidates import address_of

    entity = address_of(mention.entity) if mention.entity else None
    return Suggestion(mention.start, mention.end, kind, mention.source, min(max(mention.score, 0.0), 1.0), entity)


def plan_options() -> dict[str, tuple[Any, str]]:
    """Return the plan's fields with their default and what each means, for forms and flags."""
    return {field.name: (field.default, field.metadata["doc"]) for field in fields(SamplingPlan)}
