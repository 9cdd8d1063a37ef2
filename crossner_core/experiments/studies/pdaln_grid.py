"""PDALN's grid: estimator × batch, weights and contrast alone, chosen on dev and measured against a CRF trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.cells import Cell, CellResult
from crossner_core.experiments.plots import bars
from crossner_core.experiments.published import ZHANG, pdaln_f1, printed
from crossner_core.experiments.studies._grid import (
    Row,
    Scores,
    average,
    best_row,
    cell_of,
    check_labels,
    difference,
    each_encoder,
    f1_table,
    joined,
    mean_over,
    overridden,
    paired_results,
    ran_apart,
    scores_of,
)
from crossner_core.experiments.studies._stages import chosen_dev, chosen_test, stage_table
from crossner_core.experiments.studies.pdaln_ablation import NO_TERMS, PdalnConfig
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import HOW_JUDGED, JUDGED, Table, Value, judged, summary
from crossner_core.options.base import option
from crossner_core.training.recipe import Recipe

TITLE = "PDALN's grid"
SUPERVISIONS = {"semi-supervised": "pdaln", "unsupervised": "pdaln_unsupervised"}
_CRF, _TRAINED_FURTHER, _CONTRAST = "CRF", "CRF trained further", "contrast alone"
_PAPER = "the paper's recipe"
_WHOLE, _BEST_RUN, _PLAIN = "PDALN (mean)", "PDALN (best run)", "BERT + CRF"  # the systems as published
_CONTRAST_ALONE = {**NO_TERMS, "pdaln_use_contrastive": True}
# Source: PDALN section 5.3, and eq. 4 for the estimator. The text has no warm-up, and one rate for all layers and
# stages.
PAPER_RECIPE: dict[str, Any] = {
    "learning_rate": 5e-5,
    "head_learning_rate": 5e-5,
    "schedule": "linear",
    "warmup_share": 0.0,
    "max_length": 128,
    "pdaln_batch_size": 32,
    "pdaln_estimator": "biased",
    "pdaln_round_rate": 1.0,
    "transition_rate_scale": 1.0,
}
# Beside it, by supervision: of all rows; of PDALN, whose student learns from the tokens of entities (eq. 11), and which
# without labels reads the test sentences as unlabelled text.
_LABELS = {"semi-supervised": {"pdaln_labels": "once"}, "unsupervised": {}}
_LEARNS_FROM = {"semi-supervised": {"pdaln_distil_tokens": "entities"}, "unsupervised": {"pdaln_bare_text": "test"}}
_LAST_EPOCHS = (
    "Last epochs: of the last round, or of the base stage where there are no rounds, whatever dev says; the paper "
    "mentions no choice on dev."
)
# Every round stands, so that one training shows what it leaves with and without a choice on dev.
_STANDS = {"pdaln_keep": "last"}


@dataclass(frozen=True)
class PdalnGridConfig(PdalnConfig):
    """The grid is trained with `choice_seeds`; what dev chooses, and what it is compared with, with `seeds`."""

    choice_seeds: tuple[int, ...] = option((555,), "Seeds of the choice on dev.")
    supervision: tuple[str, ...] = option(
        tuple(SUPERVISIONS), "With labelled target sentences, without, or both.", choices=tuple(SUPERVISIONS)
    )
    estimators: tuple[str, ...] = option(
        ("unbiased", "biased"), "Estimators of the squared MMD.", choices=("biased", "unbiased")
    )
    batches: tuple[int, ...] = option((8, 32), "Sentences per step.", min=1, max=1024)
    weights: tuple[float, ...] = option((0.1, 0.3, 3.0), "Factors on the weights of MMD.", min=1e-3, max=1000.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("choice_seeds", "supervision", "estimators", "batches", "weights"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise InvalidConfig(f"{name} is {', '.join(map(str, values))}; each must be there once.")


@dataclass(frozen=True)
class Group:
    """The rows of one supervision and encoder: what dev chooses from, and what that is compared with."""

    supervision: str
    label: str
    candidates: tuple[Row, ...]
    plain: Mapping[int, tuple[Row, ...]]
    """By batch: the CRF on the base stage's sentences, and trained on for as many steps where there are rounds."""
    papers: tuple[Row, ...]
    """The same and PDALN, by the paper's recipe."""

    def baselines(self, row: Row) -> tuple[Row, ...]:
        """Return what a candidate is compared with: the CRFs of its own batch."""
        return self.plain[row.changes["pdaln_batch_size"]]


def groups(config: PdalnGridConfig) -> list[Group]:
    """Return the groups of the grid."""
    return [
        _group(config, supervision, label, encoder)
        for supervision in config.supervision
        for label, encoder in each_encoder(config)
    ]


def _group(config: PdalnGridConfig, supervision: str, label: str, encoder: str) -> Group:
    setting, usual = SUPERVISIONS[supervision], config.recipe_of()
    short = "" if supervision == "semi-supervised" else supervision

    def row(name: str, changes: Mapping[str, Any], system: str = "") -> Row:
        whole = {"architecture": "crf", "setting": setting, **_STANDS, **changes}
        published = pdaln_f1(system, supervision, config.target_sentences)
        return Row(joined(name, short, label), whole, encoder, config.target_sentences, config.order, published)

    def plain(name: str, changes: Mapping[str, Any], system: str = "") -> tuple[Row, ...]:
        rows = [row(joined(_CRF, name), {**NO_TERMS, **changes}, system)]
        if setting == "pdaln":
            trained_on = {**NO_TERMS, "pdaln_rounds": usual.pdaln_rounds, **changes}
            rows.append(row(joined(_TRAINED_FURTHER, name), trained_on))
        return tuple(rows)

    candidates = [
        row(f"PDALN, {estimator} MMD, batch {batch}", {"pdaln_estimator": estimator, "pdaln_batch_size": batch})
        for estimator in config.estimators
        for batch in config.batches
    ]
    candidates += [row(f"PDALN, MMD × {factor:g}", _weighted(usual, factor)) for factor in config.weights]
    candidates.append(row(_CONTRAST, {**_CONTRAST_ALONE, "pdaln_batch_size": usual.pdaln_batch_size}))
    used = dict.fromkeys((*config.batches, usual.pdaln_batch_size))
    by_batch = {batch: plain(f"batch {batch}", {"pdaln_batch_size": batch}) for batch in used}
    papers = PAPER_RECIPE | _LABELS[supervision]
    by_papers = (
        *plain(_PAPER, papers, _PLAIN),
        row(f"PDALN, {_PAPER}", {**papers, **_LEARNS_FROM[supervision]}, _WHOLE),
    )
    return Group(supervision, joined(short, label), tuple(candidates), by_batch, by_papers)


def _weighted(usual: Recipe, factor: float) -> dict[str, Any]:
    names = ("pdaln_alpha", "pdaln_alpha_unsupervised", "pdaln_beta")
    return {"pdaln_batch_size": usual.pdaln_batch_size, **{name: factor * getattr(usual, name) for name in names}}


def rows(config: PdalnGridConfig) -> list[Row]:
    """Return the rows of all groups."""
    return [row for group in groups(config) for row in (*_on_dev(group), *group.papers)]


def _on_dev(group: Group) -> list[Row]:
    return [*(row for plain in group.plain.values() for row in plain), *group.candidates]


def cells(config: PdalnGridConfig) -> list[Cell]:
    """Return what the choice on dev needs."""
    check_labels(config, [row.label for row in rows(config)])
    overridden(config, rows(config))
    wanted = [row for group in groups(config) for row in _on_dev(group)]
    return _cells(config, config.choice_seeds, wanted)


def follow(config: PdalnGridConfig, inputs: Inputs) -> list[Cell]:
    """Return the cells of what dev chose, of its baselines and of the paper's recipe, with all seeds."""
    return _cells(config, config.seeds, [row for group in groups(config) for row in _on_test(config, group, inputs)])


def _cells(config: PdalnGridConfig, seeds: Sequence[int], wanted: Sequence[Row]) -> list[Cell]:
    grid = (cell_of(config, row, corpus, seed) for seed in seeds for corpus in config.corpora for row in wanted)
    return list(dict.fromkeys(grid))


def _on_test(config: PdalnGridConfig, group: Group, inputs: Inputs) -> list[Row]:
    """Return the rows that are measured on test: none of the grid while its choice cannot be made."""
    best = chosen_on_dev(config, group, inputs)
    return [*((*group.baselines(best), best) if best is not None else ()), *group.papers]


def chosen_on_dev(config: PdalnGridConfig, group: Group, inputs: Inputs) -> Row | None:
    """Return the candidate of the highest mean dev F1, the first of equals; None if any is missing."""
    choice = replace(config, seeds=config.choice_seeds)
    return best_row(choice, group.candidates, scores_of(choice, inputs, group.candidates, chosen_dev))


def build(config: PdalnGridConfig, inputs: Inputs) -> Made:
    """Return dev F1 of the grid, test F1 of what dev chose and of the paper's recipe, by stage too, and differences."""
    choice = replace(config, seeds=config.choice_seeds)
    on_dev = [row for group in groups(config) for row in _on_dev(group)]
    on_test = [row for group in groups(config) for row in _on_test(config, group, inputs)]
    dev = scores_of(choice, inputs, on_dev, chosen_dev)
    first = f1_table(TITLE, choice, on_dev, dev, on="dev")
    test = scores_of(config, inputs, on_test, chosen_test)
    measured = any(values for by_corpus in dev.values() for values in by_corpus.values())
    shown = [replace(row, published={}) for row in on_test]
    tables = [first] if measured else []
    if any(chosen_on_dev(config, group, inputs) is not None for group in groups(config)):
        tables.append(f1_table("The choice on test", config, shown, test))
    tables.append(_as_in_the_paper(config, inputs))
    if (by_stage := stage_table(config, inputs, on_test)) is not None:
        tables.append(by_stage)
    tables.append(_differences(config, inputs, test))
    figure = bars(TITLE, first, unit="dev F1 (%)") if measured else None
    return Made(tuple(tables), figure, tuple(_notes(config, inputs)))


def _as_in_the_paper(config: PdalnGridConfig, inputs: Inputs) -> Table:
    """Return test F1 of the paper's recipe after its last epoch, beside the published mean and best run."""
    wanted, scores = list[Row](), dict[str, Mapping[str, Mapping[int, float]]]()
    for group in groups(config):
        whole = group.papers[-1]
        wanted += group.papers
        scores |= scores_of(config, inputs, group.papers, _last_epoch)
        runs = average(scores[whole.label])
        if len(runs) > 1:
            best = max(runs, key=lambda seed: runs[seed])
            known = pdaln_f1(_BEST_RUN, group.supervision, config.target_sentences)
            row = replace(whole, label=f"{whole.label}, best of {len(runs)} runs", published=known)
            wanted.append(row)
            scores[row.label] = {corpus: {best: by_seed[best]} for corpus, by_seed in scores[whole.label].items()}
    table = f1_table("As in the paper", config, wanted, scores)
    return replace(table, note=f"{table.note} {_LAST_EPOCHS}")


def _notes(config: PdalnGridConfig, inputs: Inputs) -> list[str]:
    usual, notes = config.recipe_of(), list[str]()
    rates = (
        f"By {_PAPER}: batches of 32, one rate of 5e-05 that decays linearly in each stage, "
        "128 subwords and biased MMD. Epochs, rounds and the weights of MMD and distillation are ours: the "
        "paper prints no number of the first two, and the weights as curves, tuned for each corpus. Its contrastive "
        f"loss has weight 1 beside the tagging loss of a sentence, ours {usual.pdaln_contrastive_weight:g} beside a "
        "mean over tokens."
    )
    if "semi-supervised" in config.supervision:
        notes.append(
            f"{config.target_sentences} labelled target sentences ({config.order} order). Of each run the stage that "
            f"is best on dev counts: base stage or a round. '{_TRAINED_FURTHER}' trains the CRF in as many rounds, "
            "steps and sentences as PDALN, without its terms and with no entity exchanged. Chosen with seeds "
            f"{', '.join(map(str, config.choice_seeds))}. '{_CONTRAST}' has no rounds."
        )
        rates += (
            " Labelled target sentences are among the base stage's, once an epoch; in the rounds only the tags of "
            "augmented sentences are learned, and PDALN's student learns from its teacher on the tokens of entities "
            "alone."
        )
        if usual.pdaln_labels == "drawn":
            rates += " Elsewhere each step also learns the tags of labelled target sentences, half as many as its own."
        if usual.pdaln_distil_tokens == "all":
            rates += " Elsewhere the student learns on all tokens."
    if "unsupervised" in config.supervision:
        text = "the test sentences, without their labels (transductive)"
        if usual.pdaln_bare_text == "rest":
            text = f"by {_PAPER} {text}, elsewhere the rest of train"
        notes.append(
            "Unsupervised: no labelled target sentence and no round; the CRF learns the source's tags alone. "
            f"PDALN's unlabelled text is {text}."
        )
    notes.append(rates)
    for group in groups(config):
        best = chosen_on_dev(config, group, inputs)
        if best is not None:
            notes.append(f"Best on dev: {best.label}.")
        else:
            whose = f" ({group.label})" if group.label else ""
            notes.append(f"Nothing is chosen{whose} while a dev F1 is missing.")
    notes += overridden(config, rows(config))
    pairs = [pair for group in groups(config) for pair in _shown_pairs(config, group, inputs)]
    return notes + list(ran_apart(paired_results(config, inputs, pairs)))


def _shown_pairs(config: PdalnGridConfig, group: Group, inputs: Inputs) -> list[tuple[Row, Row]]:
    """Return the rows whose differences are shown: what dev chose, and the paper's PDALN, each with its CRFs."""
    best = chosen_on_dev(config, group, inputs)
    *plain, whole = group.papers
    chosen = [] if best is None else [(best, other) for other in group.baselines(best)]
    return chosen + [(whole, other) for other in plain]


def _differences(config: PdalnGridConfig, inputs: Inputs, test: Scores) -> Table:
    lines: list[tuple[Value, ...]] = []
    for group in groups(config):
        known = _published(config, group.supervision)
        pairs = _shown_pairs(config, group, inputs)
        firsts = [rows[0] for rows in (group.papers, *group.plain.values())]
        last = scores_of(config, inputs, list(chain(*pairs)), _last_epoch)
        for ending, scores in (("", test), (", last epochs", last)):
            for better, other in pairs:
                gains = {c: difference(scores[better.label][c], scores[other.label][c]) for c in config.corpora}
                printed_one = known if other in firsts else None
                values = list(average(gains).values())
                gain = summary(values, published=printed_one, signed=True)
                lines.append((f"{better.label} − {other.label}{ending}", *judged(gain), gain.n))
    note = (
        "Differences of test F1, seed by seed: mean ± sample deviation, and the 95 % interval of the mean (Student's t "
        "over the seeds). In square brackets PDALN's published mean of five runs less the CRF's one published figure, "
        f"for which the paper does not give the number of runs. {HOW_JUDGED} {_LAST_EPOCHS}"
    )
    columns = ("", *JUDGED, "n")
    return Table(f"{TITLE}: differences", columns, tuple(lines), note)


def _last_epoch(result: CellResult) -> float | None:
    """Return the test F1 in percent of a run's last epoch; None if its stages are not reported."""
    last = result.stages[-1].last_test if result.stages else None
    return None if last is None else 100 * last


def _published(config: PdalnGridConfig, supervision: str) -> float | None:
    """Return the published mean of PDALN minus BERT + CRF over the corpora; None in another set-up."""
    ours, theirs = (pdaln_f1(system, supervision, config.target_sentences) for system in (_WHOLE, _PLAIN))
    return mean_over(difference(ours, theirs), config.corpora)


def _labels(config: StudyConfig) -> list[str]:
    assert isinstance(config, PdalnGridConfig)
    return [row.label for row in rows(config)]


register(
    Study(
        id="pdaln_grid",
        title=TITLE,
        question="Which PDALN is best on dev, and is it better on test than a CRF trained for as many steps?",
        reference="Zhang et al. 2021 (PDALN), table 1",
        config=PdalnGridConfig,
        corpora=("wikigold",),
        cells=cells,
        follow=follow,
        labels=_labels,
        build=build,
        published=printed(ZHANG),
    )
)
