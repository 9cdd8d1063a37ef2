"""Which strategy of choosing sentences gains the most F1: campaigns simulated with gold as oracle."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from crossner_core.acquisition.selecting import AND_GAZETTEER, SELF_TRAINING, WITHOUT_GAZETTEER, strategy
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.evaluation.coverage import Coverage, coverage
from crossner_core.evaluation.learning_curves import (
    AXES,
    BASELINE,
    RoundPoint,
    area,
    axes_of,
    common_range,
    mean_curve,
    reaches,
)
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.plots import panels
from crossner_core.experiments.published import DOMAINS
from crossner_core.experiments.study import Inputs, Made, Playing, Study, StudyConfig, register
from crossner_core.experiments.tables import Measured, Table, Value, summary
from crossner_core.options.base import option
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import Simulation, SimulationOptions
from crossner_core.simulation.running import kept, run_all

TITLE = "Strategies in simulated campaigns"
NOTE = (
    "Entity F1 in percent on the whole test set, mean ± sample deviation over the seeds. Area: mean F1 under the "
    "curve, on straight lines between its points, over the range of sentences that all strategies of the corpus cover, "
    "which stands beside it; – where a strategy has too few points. To F1 of n random: how many sentences the mean "
    "curve needs, on such lines, for the mean F1 that n random sentences give; – where it never gets there, "
    "or no random ones were simulated. Seconds are annotators' active time, simulated."
)
_OF_THE_CORPORA = (
    "A real gazetteer knows about as much of test as of train and dev. This one was made of names of the corpora "
    "themselves (in docs/results a made-up slice of DBpedia, with a third of the names missing), so what is gained by "
    "it is too good: a bound, not a forecast."
)
TIMES_TEST, ENTITIES_TO_JUDGE = 1.5, 100
"""From how many times test's share of known entities on, and from how many entities on, this is said."""
Runs = Mapping[str, Sequence[RoundPoint]]
"""The points of each strategy on one corpus, all seeds."""
_WARM = re.compile(r" with warm start of (\d+) epochs?$")


@dataclass(frozen=True)
class StrategiesConfig(StudyConfig):
    """Strategies to compare with random sentences, and their annotators."""

    seeds: tuple[int, ...] = option((555, 666, 777, 888, 999), "Seeds; each strategy is simulated once per seed.")
    strategies: tuple[str, ...] = option(
        (WITHOUT_GAZETTEER,),
        f"Strategies, such as '2*token_entropy + k_centre', 'rare_types {SELF_TRAINING}', 'badge {AND_GAZETTEER}' or "
        "'longest with warm start of 8 epochs'.",
    )
    at: tuple[int, ...] = option(
        (20, 40, 60, 85, 110), "Numbers of sentences at which a strategy's model is evaluated.", min=1
    )
    baseline_at: tuple[int, ...] = option(
        (20, 60, 100, 200), "Numbers of random sentences at which the baseline's model is evaluated.", min=1
    )
    goals: tuple[int, ...] = option(
        (100, 200), "Numbers of random sentences whose F1 the strategies are to reach.", min=1
    )
    dev_sentences: int = option(50, "Sentences held out of the pool for early stopping.", min=0, max=100_000)
    random_share: float = option(
        0.0, "Share of a strategy's sentences that are chosen at random, as in a live queue.", min=0, max=1
    )
    suggestions: bool = option(
        False, "Show annotators suggestions of the newest model and a gazetteer (not for random sentences)."
    )
    suggestions_from: float = option(0.4, "Proposals with a lower score are hints, which cost nothing.", min=0, max=1)
    zero_shot: bool = option(
        False,
        "Begin with the model of the source stage, which chooses and suggests before the first label (not for random "
        "sentences).",
    )
    gazetteer: str = option("", "Folder of a compiled gazetteer, for suggestions and strategies. Default: none.")
    annotator: Mapping[str, Any] = option(
        {},
        "Error rates and seconds of the annotator, by name; or several annotators by name, each with its own, who "
        "share the sentences.",
    )

    @property
    def names(self) -> Path | None:
        """The folder of the gazetteer, if there is one."""
        return Path(self.gazetteer) if self.gazetteer else None

    def annotators(self) -> dict[str, AnnotatorOptions]:
        """Return the annotators by name; a single one is "". Raises InvalidConfig for non-numbers."""
        several = any(isinstance(options, Mapping) for options in self.annotator.values())
        by_name = self.annotator if several else {"": self.annotator}
        for options in by_name.values():
            if not isinstance(options, Mapping) or any(
                not isinstance(value, int | float) for value in options.values()
            ):
                raise InvalidConfig(
                    f"annotator is {dict(self.annotator)}; give numbers by name, or several annotators by name, each "
                    "with its numbers."
                )
        return {name: AnnotatorOptions().differing(options) for name, options in by_name.items()}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.annotators()
        if len(self.encoders) > 1:
            raise InvalidConfig(
                f"encoders is {list(self.encoders)}; strategies are compared on one encoder. Name one, and start the "
                "study once for each."
            )
        if self.rows:
            raise InvalidConfig(
                f"rows names {', '.join(self.rows)}, but all strategies share one recipe, as random sentences do. "
                "Change its fields by recipe, and start the study once for each recipe."
            )
        if self.corpora:
            simulations(self)


def simulations(config: StrategiesConfig) -> list[Simulation]:
    """Return a campaign for each seed, strategy and corpus, random sentences first."""
    annotator, *others = config.annotators().values()
    texts = tuple(dict.fromkeys((BASELINE, *config.strategies)))
    recipe = config.recipe_of()
    name = next(iter(config.labelled_encoders.values()), recipe.encoder)
    return [
        Simulation(
            corpus,
            _options(config, text, seed),
            replace(recipe, encoder=name.replace("{corpus}", corpus)),
            annotator,
            others=tuple(others),
        )
        for seed in config.seeds
        for text in texts
        for corpus in config.corpora
    ]


def _options(config: StrategiesConfig, text: str, seed: int) -> SimulationOptions:
    warm = _WARM.search(text)
    chosen = strategy(_WARM.sub("", text))
    return SimulationOptions(
        strategy=chosen.functions,
        self_training=chosen.self_training,
        gazetteer_teaches=chosen.gazetteer,
        warm_epochs=int(warm[1]) if warm else 0,
        zero_shot=config.zero_shot and text != BASELINE,
        at=config.baseline_at if text == BASELINE else config.at,
        dev_sentences=config.dev_sentences,
        random_share=0.0 if text == BASELINE else config.random_share,
        suggestions=config.suggestions and text != BASELINE,
        suggestions_from=config.suggestions_from if config.suggestions and text != BASELINE else 0.0,
        seed=seed,
    )


def play(
    config: StrategiesConfig, data: Path, out: Path, *, workers: int, ray: str, should_stop: Callable[[], bool]
) -> Iterator[Playing]:
    """Play every campaign that has no result yet."""
    plans = simulations(config)
    done, missing = 0, tuple[str, ...]()
    for played in run_all(plans, data, out, gazetteer=config.names, workers=workers, ray=ray, should_stop=should_stop):
        if played.error:
            missing += (f"{played.simulation}: {played.error}",)
        done += not played.error
        outcome = (
            played.error or f"test F1 {100 * played.points[-1].f1:.2f} with {played.points[-1].sentences} sentences"
        )
        yield Playing(f"{played.simulation}: {outcome}", done, len(plans), missing)
    if left := len(plans) - done - len(missing):
        yield Playing("Stopped.", done, len(plans), (*missing, f"{left} campaigns: not simulated yet"))


def build(config: StrategiesConfig, inputs: Inputs) -> Made:
    """Make the table of all strategies and corpora, and their curves."""
    by_key = kept(simulations(config), inputs.data, inputs.out, config.names)
    by_corpus: dict[str, dict[str, list[RoundPoint]]] = {}
    for played in by_key.values():
        runs = by_corpus.setdefault(played.simulation.corpus, {})
        runs.setdefault(played.simulation.options.label, []).extend(played.points)
    encoders = dict.fromkeys(Path(played.simulation.recipe.encoder).name for played in by_key.values())
    notes: tuple[str, ...] = (
        f"The pool is the corpus's train and dev sentences but {config.dev_sentences}, which serve for early stopping; "
        "test is only measured on.",
        f"Encoder {', '.join(encoders)}.",
    )
    notes += (_people(config),) if config.annotator else ()
    if config.names is not None:
        asked = dict.fromkeys(
            played.simulation.corpus for played in by_key.values() if played.simulation.asks_gazetteer
        )
        notes += notes_on([_known(config.names, corpus, inputs.data) for corpus in asked])
    table = strategies_table(by_corpus, config.goals)
    return Made((table,), strategies_figure(by_corpus), notes, tuple(by_key))


def _people(config: StrategiesConfig) -> str:
    """Describe the configured annotators."""
    annotators = config.annotators()
    if len(annotators) == 1:
        return f"Annotators: {next(iter(annotators.values())).words}"
    each = " ".join(f"{name}: {annotator.words}" for name, annotator in annotators.items())
    return f"{len(annotators)} annotators share the sentences, assigned by the seed. {each}"


@dataclass(frozen=True, slots=True)
class Known:
    """How much of a corpus's gold a gazetteer proposes, which strategies that use it depend on."""

    corpus: str
    pool: Coverage
    test: Coverage

    @property
    def words(self) -> str:
        """The same in words."""
        return (
            f"Of the entities of {self.corpus} the gazetteer proposes {100 * self.pool.recall:.0f} % as they are in "
            f"gold in train and dev ({100 * self.pool.precision:.0f} % of its proposals there are right) and "
            f"{100 * self.test.recall:.0f} % in test."
        )

    @property
    def is_of_the_corpus(self) -> bool:
        """Whether it knows so much more of train and dev than of test that its names can only come from there."""
        enough = min(self.pool.gold, self.test.gold) >= ENTITIES_TO_JUDGE
        return enough and self.pool.recall > TIMES_TEST * self.test.recall


def notes_on(known: Sequence[Known]) -> tuple[str, ...]:
    """Describe what a gazetteer knows of each corpus, and say if it was made of their names."""
    made_of_them = any(each.is_of_the_corpus for each in known)
    return (*(each.words for each in known), *((_OF_THE_CORPORA,) if made_of_them else ()))


def _known(gazetteer: Path, corpus: str, root: Path) -> Known:
    from crossner_core.gazetteer.asking import asking

    read, ask = read_corpus(corpus, root), asking(gazetteer, corpus)
    pool, test = (
        coverage(((item.sentence, item.spans) for item in part), ask([item.sentence for item in part])).overall
        for part in ((*read.train, *read.dev), read.test)
    )
    return Known(corpus, pool, test)


def strategies_table(by_corpus: Mapping[str, Runs], goals: Sequence[int] = (100, 200)) -> Table:
    """Return a row for each corpus and strategy, the baseline first; `goals` are numbers of random sentences."""
    sizes = sorted({point.sentences for runs in by_corpus.values() for points in runs.values() for point in points})
    columns = ("corpus", "strategy", *(f"F1 at {size}" for size in sizes), "area", "over sentences")
    columns += tuple(f"{unit} to F1 of {goal} random" for goal in goals for unit in ("sentences", "seconds"))
    rows: list[tuple[Value, ...]] = []
    for corpus, runs in by_corpus.items():
        usual, areas = _by_size(runs.get(BASELINE, ())), _areas(runs)
        for name in sorted(runs, key=lambda strategy: strategy != BASELINE):
            points = _by_size(runs[name])
            needed = _spent if name == BASELINE else partial(_needs, usual=usual)
            needs = [needed(runs[name], goal=goal, axis=axis) for goal in goals for axis in ("sentences", "seconds")]
            rows.append((corpus, name, *(points.get(size) for size in sizes), *areas.get(name, (None, None)), *needs))
    return Table(TITLE, columns, tuple(rows), NOTE)


def strategies_figure(by_corpus: Mapping[str, Runs]) -> dict[str, Any]:
    """Return the curves of all strategies: one column per corpus, one row per axis on which all points have a value."""
    axes = axes_of(point for runs in by_corpus.values() for points in runs.values() for point in points) or AXES[:1]
    names = list(dict.fromkeys(name for runs in by_corpus.values() for name in runs))
    rows = {
        axis: {corpus: {name: _line(runs.get(name, ()), axis) for name in names} for corpus, runs in by_corpus.items()}
        for axis in axes
    }
    return panels(TITLE, rows)


def _line(points: Sequence[RoundPoint], axis: str) -> list[tuple[float, Measured]]:
    curve = mean_curve(points, axis)
    return [
        (at_size.x, Measured(100 * at_size.mean, None if at_size.sd is None else 100 * at_size.sd, at_size.n))
        for at_size in curve
    ]


def _areas(runs: Runs) -> dict[str, tuple[Measured, str]]:
    """Return the area under each strategy's curve, if it has one, and the range it covers."""
    long = {name: points for name, points in runs.items() if _has_lines(points)}
    try:
        low, high = common_range(point for points in long.values() for point in points)
    except BadInput:  # without a common range nothing can be compared
        return {}
    made = {}
    for name, points in long.items():
        mean_f1, sd = area(points, low, high)
        seeds = len({point.seed for point in points})
        made[name] = Measured(100 * mean_f1, None if sd is None else 100 * sd, seeds), f"{low:g} to {high:g}"
    return made


def _has_lines(points: Iterable[RoundPoint]) -> bool:
    """Return whether each seed was measured more than once."""
    rounds = Counter(point.seed for point in points)
    return bool(rounds) and min(rounds.values()) > 1


def _by_size(points: Iterable[RoundPoint]) -> dict[int, Measured]:
    values: dict[int, list[float]] = {}
    for point in points:
        values.setdefault(point.sentences, []).append(100 * point.f1)
    return {size: summary(scores) for size, scores in values.items()}


def _spent(points: Sequence[RoundPoint], goal: int, axis: str) -> Value:
    """Return the mean cost of `goal` random sentences."""
    spent = [float(getattr(point, axis)) for point in points if point.sentences == goal]
    return round(mean(spent)) if spent else None


def _needs(points: Sequence[RoundPoint], usual: Mapping[int, Measured], goal: int, axis: str) -> Value:
    if goal not in usual or (wanted := usual[goal].mean) is None:
        return None
    crossing = reaches(mean_curve(points, axis), wanted / 100)
    return None if crossing is None else round(crossing)


register(
    Study(
        id="strategies",
        title=TITLE,
        question="Which sentences should be annotated next, and how many does that save?",
        reference="Settles 2009, and the functions' own papers",
        config=StrategiesConfig,
        corpora=DOMAINS,
        cells=lambda config: (),
        build=build,
        play=play,
        plays=lambda config: len(simulations(config)),
    )
)
