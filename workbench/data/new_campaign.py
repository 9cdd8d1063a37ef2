"""Make a campaign with its domain, people, rules and sentences at once, and look beforehand at what it would suggest.

Nothing is written before all of it is known: a campaign that stopped halfway would hand out its sentences already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from crossner_core.domains import Domain
from crossner_core.errors import BadInput
from crossner_core.schema import LabelledSentence, Sentence, Suggestion
from crossner_core.suggest.imported import IMPORTED
from db.engine import Session, Store
from db.tables import Campaign
from workbench.accounts import audit
from workbench.accounts.actors import Actor, admit, fresh
from workbench.accounts.roles import KEEPERS
from workbench.campaigns import campaigns, domains
from workbench.campaigns import sentences as campaign_sentences
from workbench.data import exchange, sampling
from workbench.data.corpora import open_corpus
from workbench.data.exchange import Files, ImportOutcome
from workbench.data.sampling import SamplingPlan
from workbench.suggestions.preannotating import propose

LOOKED_AT = 10
"""Number of sentences whose suggestions are shown beforehand."""
_IMPORTED = next(iter(IMPORTED.kinds))
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class MadeCampaign:
    """A new campaign, with the outcome of its import; None where it has no sentences yet."""

    id: int
    name: str
    outcome: ImportOutcome | None


@dataclass(frozen=True, slots=True)
class Looked:
    """A sentence with the suggestions it would get."""

    sentence: Sentence
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True, slots=True)
class FirstLook:
    """Some of the sentences, evenly from all of them, with their suggestions; `problems` of sources, in words."""

    sentences: int
    looked: tuple[Looked, ...]
    problems: tuple[str, ...] = ()

    @property
    def suggested(self) -> int:
        """How many of these sentences would get a suggestion."""
        return sum(bool(item.suggestions) for item in self.looked)

    @property
    def few(self) -> bool:
        """Whether fewer than half of them would get any, so that annotators mark most spans by themselves."""
        return 2 * self.suggested < len(self.looked)


def make_campaign(
    store: Store,
    actor: Actor,
    *,
    name: str,
    domain: str = "",
    draft: str = "",
    member_ids: Iterable[int] = (),
    settings: Mapping[str, Any] | None = None,
    files: Files = (),
    reading: Mapping[str, Any] | None = None,
    corpus: str = "",
    plan: Mapping[str, Any] | None = None,
) -> MadeCampaign:
    """Make a campaign with all that belongs to it in one transaction: all of it, or nothing.

    `domain` names one that is here; `draft` is the TOML of a new one. Sentences come from `files`, read as `reading`
    states (the options of `import_files`), or are drawn from a `corpus` by a `SamplingPlan`. They are pre-annotated
    afterwards, as after an import. For researchers and admins.
    """
    admit(store, actor, *KEEPERS)
    kinds = _domain(store, domain, draft)
    source = _from_files(files, kinds, reading) if files else _from_corpus(store, actor, corpus, plan, kinds)
    with store.write() as session:
        current = fresh(session, actor, *KEEPERS)
        if draft:
            domains.add_domain(session, current, draft)
        campaign = campaigns.add_campaign(
            session, current, name=name, domain=kinds, member_ids=member_ids, **(settings or {})
        )
        made = MadeCampaign(campaign.id, campaign.name, None)
        about = ("campaign", campaign.name)
        audit.record(session, current, "create_campaign", about, campaign.id, domain=kinds.name, new_domain=bool(draft))
        if source is None:
            return made
        outcome, new = source.add(session, current, campaign)
        audit.record(session, current, "add_sentences", about, campaign.id, added=outcome.added, corpus=corpus)
        endpoint, wants = campaign.endpoint, campaign.suggestions_on
    note = exchange.suggest_new(store, actor, made.id, endpoint, new) if wants and new else ""
    return replace(made, outcome=replace(outcome, note=f"{note} {outcome.note}".strip()))


def first_look(
    store: Store,
    actor: Actor,
    *,
    domain: str = "",
    draft: str = "",
    gazetteer: str | None = None,
    files: Files = (),
    reading: Mapping[str, Any] | None = None,
    corpus: str = "",
    plan: Mapping[str, Any] | None = None,
) -> FirstLook:
    """Return what `make_campaign` would suggest in a few of the sentences, without an endpoint; nothing is written."""
    admit(store, actor, *KEEPERS)
    kinds = _domain(store, domain, draft)
    if files:
        return _look_at_files(store, actor, _from_files(files, kinds, reading), kinds, gazetteer)
    return _look_at_corpus(store, actor, corpus, plan, kinds, gazetteer)


@dataclass(frozen=True, slots=True)
class _FromFiles:
    came: exchange.ReadFiles
    split: str
    annotation: str

    @property
    def to_annotate(self) -> list[LabelledSentence | Sentence]:
        """The sentences that annotator 1 will get, who alone sees suggestions."""
        finished = self.annotation in ("gold", "first")
        return [row for row in self.came.rows if not (finished and isinstance(row, LabelledSentence))]

    def add(self, session: Session, actor: Actor, campaign: Campaign) -> tuple[ImportOutcome, int]:
        """Add the sentences; return the outcome, and how many are to be pre-annotated."""
        report = campaign_sentences.append(
            session, actor, campaign, self.came.rows, split=self.split, annotation=exchange.stored_as(self.annotation)
        )
        return exchange.outcome_of(self.came, report, ""), report.added - report.gold - report.first


@dataclass(frozen=True, slots=True)
class _FromCorpus:
    corpus: Any
    chosen: Sequence[Any]
    wanted: int
    split: str

    def add(self, session: Session, actor: Actor, campaign: Campaign) -> tuple[ImportOutcome, int]:
        """Add the sentences; return the outcome, and how many are to be pre-annotated: none that came so."""
        added, own = sampling.add_drawn(session, actor, campaign, self.corpus, self.chosen, split=self.split)
        few = "" if added == self.wanted else f"Only {added:,} of the {self.wanted:,} sentences asked for can be drawn."
        return ImportOutcome(added, 0, 0, "corpus", note=few), added if own is None else 0


def _domain(store: Store, name: str, draft: str) -> Domain:
    if bool(name) == bool(draft):
        raise BadInput("A campaign has one domain: name one that is here, or give the definition of a new one.")
    return domains.check_domain(draft) if draft else domains.get_domain(store, name)


def _from_files(files: Files, kinds: Domain, reading: Mapping[str, Any] | None) -> _FromFiles:
    options = {"split": "pool", "annotation": "suggestions", **(reading or {})}
    split = options.pop("split")
    return _FromFiles(exchange.read_rows(files, kinds.type_names, **options), split, options["annotation"])


def _from_corpus(
    store: Store, actor: Actor, name: str, plan: Mapping[str, Any] | None, kinds: Domain
) -> _FromCorpus | None:
    if not name:
        return None
    corpus, wanted = open_corpus(store, actor, name), SamplingPlan(**(plan or {}))
    chosen, _ = sampling.draw(corpus, wanted, kinds)
    return _FromCorpus(corpus, chosen, wanted.count, wanted.split)


def _look_at_files(store: Store, actor: Actor, source: _FromFiles, kinds: Domain, gazetteer: str | None) -> FirstLook:
    rows = source.to_annotate
    some = [row if isinstance(row, LabelledSentence) else LabelledSentence(row, ()) for row in _evenly(rows)]
    proposed = propose(store, actor, kinds, [row.sentence for row in some], gazetteer=gazetteer)
    looked = tuple(
        Looked(
            _bare(row.sentence),
            (*(Suggestion(span.start, span.end, span.type, _IMPORTED, 1.0) for span in row.spans), *suggestions),
        )
        for row, suggestions in zip(some, proposed.suggestions, strict=True)
    )
    return FirstLook(len(source.came.rows), looked, proposed.problems)


def _look_at_corpus(
    store: Store, actor: Actor, name: str, plan: Mapping[str, Any] | None, kinds: Domain, gazetteer: str | None
) -> FirstLook:
    if not name:
        return FirstLook(0, ())
    corpus = open_corpus(store, actor, name)
    chosen, report = sampling.draw_quickly(corpus, SamplingPlan(**(plan or {})), kinds)
    some = _evenly(chosen)
    with store.read() as session:
        with_own = sampling.speaks_of(session, corpus, kinds)
    if with_own:
        own = [tuple(sampling.own_suggestions(drawn.mentions or (), kinds.type_names)) for drawn in some]
        return FirstLook(report.added, tuple(map(Looked, (_bare(drawn.sentence) for drawn in some), own)))
    proposed = propose(store, actor, kinds, [drawn.sentence for drawn in some], gazetteer=gazetteer)
    looked = tuple(map(Looked, (_bare(drawn.sentence) for drawn in some), proposed.suggestions))
    return FirstLook(report.added, looked, proposed.problems)


def _evenly(rows: Sequence[Row]) -> list[Row]:
    """Return as many as are looked at, from all over the rows."""
    step = max(1, len(rows) / LOOKED_AT)
    return [rows[int(number * step)] for number in range(min(LOOKED_AT, len(rows)))]


def _bare(sentence: Sentence) -> Sentence:
    """Return a sentence without what only an export needs: it may go through another process."""
    return replace(sentence, meta={}, layout=None)
