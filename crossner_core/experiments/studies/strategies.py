"""Which strategy of choosing sentences buys the most F1: campaigns played through with gold as oracle."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crossner_core.acquisition.selecting import AND_GAZETTEER, SELF_TRAINING, WITHOUT_GAZETTEER, strategy
from crossner_core.errors import InvalidConfig
from crossner_core.evaluation.coverage import coverage
from crossner_core.evaluation.learning_curves import BASELINE, RoundPoint
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.published import DOMAINS
from crossner_core.experiments.study import Inputs, Made, Playing, Study, StudyConfig, register
from crossner_core.options.base import option
from crossner_core.simulation.annotators import AnnotatorOptions
from crossner_core.simulation.config import Simulation, SimulationOptions
from crossner_core.simulation.running import asking, kept, run_all
from crossner_core.simulation.tables import TITLE, strategies_figure, strategies_table

_WARM = re.compile(r" with warm start of (\d+) epochs?$")


@dataclass(frozen=True)
class StrategiesConfig(StudyConfig):
    """Strategies beside random sentences, and what their annotators are like."""

    seeds: tuple[int, ...] = option((555, 666, 777, 888, 999), "Seeds; each strategy is played once for each.")
    strategies: tuple[str, ...] = option(
        (WITHOUT_GAZETTEER,),
        f"Strategies, such as '2*token_entropy + k_centre', 'rare_types {SELF_TRAINING}', 'badge {AND_GAZETTEER}' or "
        "'longest with warm start of 8 epochs'.",
    )
    at: tuple[int, ...] = option((20, 40, 60, 85, 110), "Sizes at which a strategy's model is measured.", min=1)
    baseline_at: tuple[int, ...] = option((20, 60, 100, 200), "The same for random sentences.", min=1)
    goals: tuple[int, ...] = option((100, 200), "Numbers of random sentences whose F1 is to be reached.", min=1)
    dev_sentences: int = option(50, "Sentences kept out of the pool for early stopping.", min=0, max=100_000)
    random_share: float = option(
        0.0, "Share of a strategy's sentences that chance chooses, as in a live queue; none without.", min=0, max=1
    )
    suggestions: bool = option(False, "Annotators of strategies see suggestions: the newest model's, a gazetteer's.")
    suggestions_from: float = option(0.4, "Proposals with a lower score are hints, which cost nothing.", min=0, max=1)
    gazetteer: str = option("", "Folder of a built gazetteer, for suggestions and strategies; none without.")
    annotator: Mapping[str, Any] = option(
        {},
        "What annotators are like: error rates and seconds, by name. Several, each under a name of its own, take "
        "sentences in turn.",
    )

    @property
    def names(self) -> Path | None:
        """The folder of the gazetteer, if there is one."""
        return Path(self.gazetteer) if self.gazetteer else None

    def annotators(self) -> dict[str, AnnotatorOptions]:
        """Return those who take sentences in turn, by name; one alone has none. Raises InvalidConfig for no numbers."""
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
                f"rows names {', '.join(self.rows)}, but all strategies learn by one recipe, as random sentences do. "
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
        yield Playing("Stopped.", done, len(plans), (*missing, f"{left} campaigns: not played yet"))


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
        notes += tuple(_known(config.names, corpus, inputs.data) for corpus in asked)
    table = strategies_table(by_corpus, config.goals)
    return Made((table,), strategies_figure(by_corpus), notes, tuple(by_key))


def _people(config: StrategiesConfig) -> str:
    """Say what the annotators that were asked for are like."""
    annotators = config.annotators()
    if len(annotators) == 1:
        return f"Annotators: {next(iter(annotators.values())).words}"
    each = " ".join(f"{name}: {annotator.words}" for name, annotator in annotators.items())
    return f"{len(annotators)} annotators take sentences in turn, drawn by the seed. {each}"


def _known(gazetteer: Path, corpus: str, root: Path) -> str:
    """Describe how much of a corpus's gold the gazetteer proposes, on which strategies that use it depend."""
    read, ask = read_corpus(corpus, root), asking(gazetteer, corpus)
    pool, test = (
        coverage(((item.sentence, item.spans) for item in part), ask([item.sentence for item in part])).overall
        for part in ((*read.train, *read.dev), read.test)
    )
    return (
        f"Of the entities of {corpus} the gazetteer proposes {100 * pool.recall:.0f} % as they are in gold in train "
        f"and dev ({100 * pool.precision:.0f} % of its proposals there are right) and {100 * test.recall:.0f} % in "
        "test."
    )


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
