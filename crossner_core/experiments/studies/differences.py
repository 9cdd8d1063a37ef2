"""The papers' differences in one table: each claim of the form "A is better than B by x", with our encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.cells import Cell, CellResult
from crossner_core.experiments.published import DOMAINS, PDALN_SENTENCES, has_read_domains, pdaln_f1, published_f1
from crossner_core.experiments.studies._grid import (
    ONE_SOURCE,
    Row,
    average,
    cell_of,
    check_labels,
    difference,
    mean_over,
    overridden,
    ran_apart,
)
from crossner_core.experiments.studies.pdaln_ablation import FIVE_SEEDS, NO_TERMS
from crossner_core.experiments.studies.recipes import AS_IT_IS, changes_of
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import HOW_JUDGED, JUDGED, NOT_TESTED, Table, Value, judged, summary
from crossner_core.models.registry import decoding
from crossner_core.options.base import option
from crossner_core.training.recipe import Recipe

TITLE = "The papers' differences"
# Chosen on dev (music, ai, politics): after the source stage, fewer and larger steps are better than the default.
_TUNED = {"setting": "pretrain_finetune", "batch_size": 16, "max_epochs": 20}
# As many passes over the target as _TUNED, including its passes of the head alone; the default batch size is better.
_DIRECT = {"setting": "direct", "max_epochs": 28}
# The papers' models take each token's likeliest tag; ours the likeliest valid IOB2 sequence.
_FREE = {"constrained": False}
_FREE_TUNED = {**_TUNED, **_FREE}
# CrossNER's released loop: the source stage in the target's head (so that no row has to be inherited), one constant
# rate for all parts, neither decay nor clipping, dev scored after each pass, stopping after eight passes without a
# better score.
_RELEASED: dict[str, Any] = {
    "learning_rate": 5e-5,
    "head_learning_rate": 5e-5,
    "source_head_learning_rate": 5e-5,
    "schedule": "constant",
    "warmup_share": 0.0,
    "source_warmup_share": 0.0,
    "weight_decay": 0.0,
    "clip_norm": 0.0,
    "source_head": "target",
    "batch_size": 16,
    "source_batch_size": 16,
    "max_epochs": 300,
    "patience": 8,
    "dev_every": 1,
    "head_first_epochs": 0,
    **_FREE,
}
_AS_RELEASED = (
    f"As released: batches of {_RELEASED['batch_size']}, the source stage in a head of the target's types, a constant "
    f"rate of {_RELEASED['learning_rate']:g} without warm-up, decay, clipping or passes of the head alone, dev scored "
    f"after each pass until {_RELEASED['patience']} bring no better score, each token's likeliest tag. Not as "
    "released: of the source stage's passes the best by its dev is kept, there the last."
)
# Of the ways to keep a model from relying too much on preceding labels, this was the best on music's dev.
_LANER: dict[str, Any] = {**_TUNED, "architecture": "label_aware", "label_embedding_dropout": 0.3}
_CRF = {**_TUNED, "architecture": "crf"}
_NO_CONTEXT = {**_LANER, **_FREE, "label_context": False}
_NO_BACKGROUND = {**_LANER, **_FREE, "label_background": False}
# Chosen on dev, too (music, ai, politics): LANER with scaled attention scores, unlike the paper.
_SCALED = {**_LANER, "label_background_scaled": True, "label_context_scaled": True}
_SCALED_NO_CONTEXT = {**_NO_CONTEXT, "label_background_scaled": True}
_SCALED_NO_BACKGROUND = {**_NO_BACKGROUND, "label_context_scaled": True}
_SEMI = {"architecture": "crf", "setting": "pdaln"}
_BARE = {"architecture": "crf", "setting": "pdaln_unsupervised"}


System = tuple[str, str]
"""A published system and its setting."""


@dataclass(frozen=True)
class Claim:
    """One difference in F1, only ours or with the `published` systems; `encoder` is the better side's label."""

    id: str
    label: str
    changes: Mapping[str, Any]
    other: Mapping[str, Any]
    published: tuple[System, System] | None
    reference: str
    encoder: str = ""
    scarce: bool = False
    """Whether it uses the corpora of PDALN's set-up, with its number of target sentences and its seeds."""
    own_text: bool = False
    """Whether it is about an encoder for each corpus, pre-trained on its domain's text."""

    @property
    def decoding(self) -> str:
        """How tags are chosen on both sides, or on either."""
        return " − ".join(dict.fromkeys(_decoding(side) for side in (self.changes, self.other)))


def _decoding(changes: Mapping[str, Any]) -> str:
    """Return how a recipe with these changes chooses tags."""
    return decoding(changes.get("architecture", "tagger"), constrained=changes.get("constrained", True))


_FREELY = "neither held to IOB2"
_NEITHER = f" − tagger, {_FREELY}"
CROSSNER, LANER, NER_BERT, PDALN = "CrossNER, table 2", "LANER, table 3", "NER-BERT, table 2", "PDALN, table 1"
_TAGGED = "entity tagging (4 types)"
_BERT, _BERT_DIRECT = ("BERT-base", "pretrain_finetune"), ("BERT-base", "direct")
_ABOVE_DIRECT, _HU, _HU_CRF = (_BERT, _BERT_DIRECT), (("LANER", _BERT[1]), _BERT), (("BERT + CRF", _BERT[1]), _BERT)
_HU_CONTEXT = (("LANER w/o label context", _BERT[1]), _BERT)
_HU_BACKGROUND = (("LANER w/o label background", _BERT[1]), _BERT)
_FOUR, _FOUR_DIRECT = ((("NER-BERT (4 types)", plain[1]), plain) for plain in (_BERT, _BERT_DIRECT))
_DAPT = (("BERT-base + DAPT (span, integrated)", _BERT[1]), _BERT)
_PDALN, _PDALN_BARE = (
    (("PDALN (mean)", supervision), ("BERT + CRF", supervision)) for supervision in ("semi-supervised", "unsupervised")
)
CLAIMS = (
    Claim("transfer", "pretrain_finetune − direct", _TUNED, _DIRECT, _ABOVE_DIRECT, CROSSNER),
    Claim(
        "transfer-free",
        f"pretrain_finetune − direct, {_FREELY}",
        _FREE_TUNED,
        {**_DIRECT, **_FREE},
        _ABOVE_DIRECT,
        CROSSNER,
    ),
    Claim(
        "transfer-released",
        "pretrain_finetune − direct, nearly as released",
        {**_RELEASED, "setting": "pretrain_finetune"},
        {**_RELEASED, "setting": "direct"},
        _ABOVE_DIRECT,
        CROSSNER,
    ),
    Claim("laner", "LANER − tagger", _LANER, _TUNED, _HU, LANER),
    Claim("crf", "CRF − tagger", _CRF, _TUNED, _HU_CRF, LANER),
    Claim("iob2", "tagger held to IOB2 − by argmax", _TUNED, _FREE_TUNED, None, "ours"),
    Claim("laner-free", f"LANER{_NEITHER}", {**_LANER, **_FREE}, _FREE_TUNED, _HU, LANER),
    Claim("laner-no-context", f"LANER w/o label context{_NEITHER}", _NO_CONTEXT, _FREE_TUNED, _HU_CONTEXT, LANER),
    Claim(
        "laner-no-background",
        f"LANER w/o label background{_NEITHER}",
        _NO_BACKGROUND,
        _FREE_TUNED,
        _HU_BACKGROUND,
        LANER,
    ),
    Claim("laner-scaled", "LANER, scaled attention − tagger", _SCALED, _TUNED, _HU, LANER),
    Claim("laner-scaled-free", f"LANER, scaled attention{_NEITHER}", {**_SCALED, **_FREE}, _FREE_TUNED, _HU, LANER),
    Claim(
        "laner-scaled-no-context",
        f"LANER, scaled attention, w/o label context{_NEITHER}",
        _SCALED_NO_CONTEXT,
        _FREE_TUNED,
        _HU_CONTEXT,
        LANER,
    ),
    Claim(
        "laner-scaled-no-background",
        f"LANER, scaled attention, w/o label background{_NEITHER}",
        _SCALED_NO_BACKGROUND,
        _FREE_TUNED,
        _HU_BACKGROUND,
        LANER,
    ),
    Claim("crf-free", f"CRF{_NEITHER}", {**_CRF, **_FREE}, _FREE_TUNED, _HU_CRF, LANER),
    Claim(
        "entity-tagging-direct",
        f"{_TAGGED}, direct",
        _DIRECT,
        _DIRECT,
        _FOUR_DIRECT,
        NER_BERT,
        "entity-tagging",
    ),
    Claim(
        "entity-tagging",
        f"{_TAGGED}, pretrain_finetune",
        _TUNED,
        _TUNED,
        _FOUR,
        NER_BERT,
        "entity-tagging",
    ),
    Claim("dapt", "DAPT, pretrain_finetune", _TUNED, _TUNED, _DAPT, CROSSNER, "dapt", own_text=True),
    Claim("pdaln", "PDALN − CRF", _SEMI, {**_SEMI, **NO_TERMS}, _PDALN, PDALN, scarce=True),
    Claim(
        "pdaln-unsupervised", "PDALN − CRF, unsupervised", _BARE, {**_BARE, **NO_TERMS}, _PDALN_BARE, PDALN, scarce=True
    ),
)


@dataclass(frozen=True)
class DifferencesConfig(StudyConfig):
    """Corpora are CrossNER's; PDALN has its own corpora, seeds and number of target sentences."""

    claims: tuple[str, ...] = option((), f"Claims to test: {', '.join(claim.id for claim in CLAIMS)}. Default: all.")
    scarce_corpora: tuple[str, ...] = option(("wikigold",), "Corpora for the PDALN claims.")
    scarce_seeds: tuple[int, ...] = option(FIVE_SEEDS, "Seeds for the PDALN claims.")
    target_sentences: int = option(
        PDALN_SENTENCES, "Number of labelled target sentences for the PDALN claims.", min=1, max=10**7
    )
    candidates: tuple[str, ...] = option(
        (),
        "Equal tuning: changes to the recipe, each FIELD=VALUE, several separated by blanks. Either side of a claim "
        "takes the best of them on dev, or its own recipe if that is better.",
        lines=True,
    )
    choice_seeds: tuple[int, ...] = option((), "Seeds of the choice among candidates. Default: those of the claim.")

    def __post_init__(self) -> None:
        super().__post_init__()
        known = [claim.id for claim in CLAIMS]
        if unknown := sorted(set(self.claims) - set(known)):
            raise InvalidConfig(f"Unknown claim {', '.join(unknown)}; choose from {', '.join(known)}.")
        if unknown := sorted(set(self.labelled_encoders) - {claim.encoder for claim in CLAIMS if claim.encoder}):
            known = sorted({claim.encoder for claim in CLAIMS if claim.encoder})
            raise InvalidConfig(
                f"encoders names {', '.join(unknown)}, of which no claim is; the labels can be {', '.join(known)}. "
                "Another encoder for all claims is the recipe's."
            )
        if decided := [name for name in ("architecture", "setting") if name in self.recipe]:
            raise InvalidConfig(
                f"recipe sets {' and '.join(decided)}, of which each claim has its own on either side; leave it out."
            )
        for text in self.candidates:
            if decided := [name for name in ("architecture", "setting") if name in changes_of(text)]:
                raise InvalidConfig(
                    f"Candidate {text!r} sets {' and '.join(decided)}, of which each claim has its own on either side."
                )
        if not self.candidates:
            self.refuse("choice_seeds", why="nothing is chosen without candidates")


def claims(config: DifferencesConfig) -> list[Claim]:
    """Return the claims to try: those about another encoder only if one with that label is given."""
    asked = [claim for claim in CLAIMS if not config.claims or claim.id in config.claims]
    return [claim for claim in asked if not claim.encoder or claim.encoder in config.labelled_encoders]


def sides(config: DifferencesConfig, claim: Claim) -> tuple[Row, Row]:
    """Return the side claimed to be better, which carries the claim's label, and the other one."""
    encoder = config.labelled_encoders.get(claim.encoder, "")
    size, order = (config.target_sentences, "entities") if claim.scarce else (None, "file")
    return Row(claim.label, claim.changes, encoder, size, order), Row("", claim.other, "", size, order)


def recipes_of(config: DifferencesConfig, side: Row) -> dict[str, Row]:
    """Return a side of a claim as it is, and with each candidate's changes, by name."""
    changed = {text: replace(side, changes={**side.changes, **changes_of(text)}) for text in config.candidates}
    return {AS_IT_IS: side, **changed}


def places(config: DifferencesConfig, claim: Claim) -> list[tuple[str, int]]:
    """Return the corpora and seeds of a claim."""
    corpora, seeds = (config.scarce_corpora, config.scarce_seeds) if claim.scarce else (config.corpora, config.seeds)
    return [(corpus, seed) for seed in seeds for corpus in corpora]


def choice_places(config: DifferencesConfig, claim: Claim) -> list[tuple[str, int]]:
    """Return the corpora and seeds by which a claim's sides choose among the candidates."""
    seeds = config.choice_seeds
    return places(replace(config, seeds=seeds, scarce_seeds=seeds) if seeds else config, claim)


def cells(config: DifferencesConfig) -> list[Cell]:
    """Return every cell of every claim once; with candidates what the choice on dev needs."""
    check_labels(config, [claim.label for claim in claims(config)])
    _overridden(config)
    trained = (
        cell_of(config, row, corpus, seed)
        for claim in claims(config)
        for corpus, seed in choice_places(config, claim)
        for side in reversed(sides(config, claim))
        for row in recipes_of(config, side).values()
    )
    return list(dict.fromkeys(trained))


def follow(config: DifferencesConfig, inputs: Inputs) -> list[Cell]:
    """Return the cells of what either side of each claim has chosen, with all seeds."""
    trained = (
        cell_of(config, row, corpus, seed)
        for claim in claims(config)
        for side in reversed(sides(config, claim))
        for row in (recipes_of(config, side)[chosen_on_dev(config, claim, side, inputs)],)
        for corpus, seed in places(config, claim)
    )
    return list(dict.fromkeys(trained))


def chosen_on_dev(config: DifferencesConfig, claim: Claim, side: Row, inputs: Inputs) -> str:
    """Return the name of a side's recipe of the highest mean F1 on dev; as it is while one is missing."""
    if not config.candidates:
        return AS_IT_IS
    means = dict[str, float]()
    for name, row in recipes_of(config, side).items():
        results = [inputs.results.get(cell_of(config, row, *place)) for place in choice_places(config, claim)]
        scores = [result.dev.f1 for result in results if result is not None and result.dev is not None]
        if len(scores) < len(results):
            return AS_IT_IS
        means[name] = fmean(scores)
    return max(means, key=lambda name: means[name])


def build(config: DifferencesConfig, inputs: Inputs) -> Made:
    """Make the table: mean difference over the corpora, seed by seed, and the verdicts on it."""
    lines = [_line(config, claim, inputs) for claim in claims(config)]
    note = (
        "Differences of test F1 on the same encoder, averaged over the corpora seed by seed: mean ± sample deviation "
        "over the seeds, and the 95 % interval of the mean (Student's t). In square brackets the published difference, "
        f"of BERT-base and of means over the same corpora. {HOW_JUDGED} Decoding: the best path held to IOB2, of LANER "
        "the likeliest tag that may follow, from left to right; or, as in the papers, each token's likeliest tag "
        "(argmax), of a CRF its best path."
    )
    asked = claims(config)
    is_released = [claim.id == "transfer-released" for claim in asked]
    if not all(is_released):
        chosen = _chosen(config.recipe_of()) if not config.rows else "those of single rows stand above"
        note += f" Recipes were chosen on dev: {chosen}."
    if not config.own_source:
        note += f" {ONE_SOURCE}"
    notes = _overridden(config)
    if any(is_released):
        notes += (_AS_RELEASED,)
    notes += tuple(
        f"{claim.label} is not tested: one encoder for all corpora has not read each one's domain text; name one with "
        "{corpus} in its path."
        for claim in asked
        if not _is_tested(config, claim)
    )
    if config.candidates:
        notes += tuple(_tuned(config, claim, inputs) for claim in asked)
    notes += ran_apart((claim.label, *pair) for claim in asked for pair in _pairs(config, claim, inputs).values())
    columns = ("", "decoding", *JUDGED, "by corpus", "n", "source")
    return Made((Table(TITLE, columns, tuple(lines), note),), None, notes)


def _overridden(config: DifferencesConfig) -> tuple[str, ...]:
    """Return remarks on claims that override what the recipe sets, on either side."""
    rows = [replace(side, label=claim.label) for claim in claims(config) for side in sides(config, claim)]
    return overridden(config, rows)


def _tuned(config: DifferencesConfig, claim: Claim, inputs: Inputs) -> str:
    """Say which recipe either side of a claim has taken."""
    names = (chosen_on_dev(config, claim, side, inputs) for side in sides(config, claim))
    first, second = ("no change" if name == AS_IT_IS else name for name in names)
    seeds = dict.fromkeys(str(seed) for _, seed in choice_places(config, claim))
    with_seeds = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"
    return f"{claim.label}: dev ({with_seeds}) chose {first} for the first, {second} for the second."


def _chosen(usual: Recipe) -> str:
    """Describe how the recipes differ from the usual one."""
    return (
        f"after a source stage {usual.head_first_epochs} passes of the head alone, then {_TUNED['max_epochs']} in "
        f"batches of {_TUNED['batch_size']}; direct {_DIRECT['max_epochs']} in batches of {usual.batch_size}; LANER "
        f"with {100 * _LANER['label_embedding_dropout']:.0f} % of the labels before a token left out"
    )


def _line(config: DifferencesConfig, claim: Claim, inputs: Inputs) -> tuple[Value, ...]:
    gains: dict[str, dict[int, float]] = {corpus: {} for corpus, _ in places(config, claim)}
    for (corpus, seed), (ours, theirs) in _pairs(config, claim, inputs).items():
        if ours is not None and theirs is not None:
            gains[corpus][seed] = ours.f1 - theirs.f1
    whole = summary(list(average(gains).values()), published=_published(config, claim), signed=True)
    *_, interval, above, against = judged(whole)
    if whole.published is not None and not _is_tested(config, claim):
        against = NOT_TESTED
    each = [f"{corpus} {summary(list(values.values()), signed=True)}" for corpus, values in gains.items()]
    by_corpus = "; ".join(each)
    return claim.label, claim.decoding, whole, interval, above, against, by_corpus, whole.n, claim.reference


def _pairs(
    config: DifferencesConfig, claim: Claim, inputs: Inputs
) -> dict[tuple[str, int], tuple[CellResult | None, CellResult | None]]:
    """Return by corpus and seed the results of a claim's two sides, by the recipes that they have chosen."""
    better, other = (
        recipes_of(config, side)[chosen_on_dev(config, claim, side, inputs)] for side in sides(config, claim)
    )
    results = inputs.results
    return {
        place: (results.get(cell_of(config, better, *place)), results.get(cell_of(config, other, *place)))
        for place in places(config, claim)
    }


def _published(config: DifferencesConfig, claim: Claim) -> float | None:
    """Return the published difference over the same corpora; None if one is not in the paper, or its set-up is not."""
    corpora = config.scarce_corpora if claim.scarce else config.corpora
    if claim.published is None:
        return None
    ours, theirs = (
        pdaln_f1(*system, config.target_sentences) if claim.scarce else published_f1(*system)
        for system in claim.published
    )
    return mean_over(difference(ours, theirs), corpora)


def _is_tested(config: DifferencesConfig, claim: Claim) -> bool:
    return not claim.own_text or has_read_domains(config.labelled_encoders[claim.encoder])


register(
    Study(
        id="differences",
        title=TITLE,
        question="Which of the papers' improvements hold with this encoder, and by how much?",
        reference="Liu et al. 2021 (CrossNER and NER-BERT), Hu et al. 2022 (LANER), Zhang et al. 2021 (PDALN)",
        config=DifferencesConfig,
        corpora=DOMAINS,
        cells=cells,
        follow=follow,
        labels=lambda config: [claim.label for claim in claims(config)],
        build=build,
    )
)
