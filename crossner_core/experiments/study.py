"""Studies: a table or curve of a paper, as cells to train and tables to build; one file each in `studies/`.

Torch-free on import, so that a page or a command can list them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Protocol

from crossner_core.errors import InvalidConfig
from crossner_core.experiments.cells import Cell, CellResult
from crossner_core.experiments.results import StudyResult
from crossner_core.experiments.tables import Table
from crossner_core.options.base import Checked, option
from crossner_core.registry import Registry
from crossner_core.training.recipe import Recipe

SEEDS = (555, 666, 777)


def labelled(field: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse LABEL=NAME; a name without a label is its own. Raise InvalidConfig if either half is empty."""
    pairs = [text.partition("=") if "=" in text else (Path(text).name, "", text) for text in texts]
    if empty := [text for text, (label, _, name) in zip(texts, pairs, strict=True) if not (label and name)]:
        raise InvalidConfig(f"{field} holds {empty[0]!r}; write LABEL=NAME, as in span-integrated=/path/of/folder.")
    return {label: name for label, _, name in pairs}


@dataclass(frozen=True)
class StudyConfig(Checked):
    """The config of every study; a study with options of its own adds fields."""

    corpora: tuple[str, ...] = option((), "Corpora, by id. Default: those of the paper that are in the data folder.")
    seeds: tuple[int, ...] = option(SEEDS, "Seeds; each cell is trained once per seed.")
    encoders: tuple[str, ...] = option(
        (), "Encoders as LABEL=NAME; NAME may contain {corpus}. Default: the recipe's own."
    )
    recipe: Mapping[str, Any] = option({}, "Recipe fields to change, by name.")
    rows: Mapping[str, Mapping[str, Any]] = option(
        {}, "Recipe fields to change in individual rows, by the row's label."
    )
    only: tuple[str, ...] = option((), "Rows to train and to show, by label. Default: all.")
    own_source: bool = option(
        False, "Train the source stage anew with each seed, so that deviations include it; else one serves all seeds."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for spec in fields(self):
            if spec.default and isinstance(spec.default, tuple) and not getattr(self, spec.name):
                raise InvalidConfig(f"{spec.name} is empty; give at least one.")
        if not all(id.strip() for id in self.corpora):
            raise InvalidConfig(f"corpora is {list(self.corpora)}; give each by its name, or none for the study's own.")
        for name in ("corpora", "seeds"):
            values = getattr(self, name)
            if twice := sorted({str(value) for value in values if values.count(value) > 1}):
                raise InvalidConfig(f"{name} names {', '.join(twice)} twice; each must be there once.")
        if len(self.given_encoders) != len(self.encoders):
            raise InvalidConfig(f"encoders is {list(self.encoders)}; the labels must differ.")
        for label, changes in {"": {}, **self.rows}.items():
            if "seed" in {**self.recipe, **changes}:
                raise InvalidConfig(
                    "A study trains with its own seeds; name them by seeds, and leave seed out of recipes."
                )
            if self.own_source and "source_seed" in {**self.recipe, **changes}:
                raise InvalidConfig("With own_source each seed is the source stage's, too; leave out source_seed.")
            self.recipe_of(label)

    def refuse(self, *names: str, why: str) -> None:
        """Raise InvalidConfig if one of these options is set although it has no effect."""
        if given := [name for name in names if getattr(self, name)]:
            raise InvalidConfig(f"{' and '.join(given)} would have no effect: {why}. Leave it out.")

    @property
    def labelled_encoders(self) -> dict[str, str]:
        """Return the names of the rows' encoders by label, in order."""
        return self.given_encoders

    @property
    def given_encoders(self) -> dict[str, str]:
        """Return encoder names by label, as they were given; a name without label is its own."""
        return labelled("encoders", self.encoders)

    def recipe_of(self, label: str = "", **changes: Any) -> Recipe:
        """Return the recipe of a row: the config's fields, then the row's own `changes`, then the user's by label.

        Raises InvalidConfig for an unknown field or an invalid value.
        """
        return Recipe.from_dict({**self.recipe, **changes, **self.rows.get(label, {})})

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> StudyConfig:
        """Build a config, lists as tuples; an unknown key raises InvalidConfig and names the valid ones."""
        known = {spec.name for spec in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise InvalidConfig(f"Unknown study option {', '.join(unknown)}; valid are {', '.join(sorted(known))}.")
        made: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**made)


@dataclass(frozen=True)
class Inputs:
    """The inputs of a study's tables: results of its cells (without failed ones), and its folders."""

    results: Mapping[Cell, CellResult]
    data: Path
    out: Path


@dataclass(frozen=True)
class Made:
    """The output of a study: tables (the main one first), a plotly figure as plain values, and notes."""

    tables: tuple[Table, ...]
    figure: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    played: tuple[str, ...] = ()
    """Keys of the campaigns that the study played instead of cells."""


@dataclass(frozen=True, slots=True)
class Playing:
    """Progress of a study that plays campaigns; `missing` lists what could not be played, with the reason."""

    message: str
    done: int
    total: int
    missing: tuple[str, ...] = ()


class Play(Protocol):
    """Produces a study's results other than cells and stores them under `out`; existing ones are not repeated."""

    def __call__(
        self, config: Any, data: Path, out: Path, *, workers: int, ray: str, should_stop: Callable[[], bool]
    ) -> Iterator[Playing]: ...


@dataclass(frozen=True)
class Study:
    """A study by its id.

    `cells` lists what has to be trained (nothing, for a count over corpora); `build` makes the tables. `corpora` are
    the paper's, used if present. `keep` stores each cell's tagger at `run_folder(out, result.key)/tagger`.
    """

    id: str
    title: str
    question: str
    reference: str
    config: type[StudyConfig]
    corpora: tuple[str, ...]
    cells: Callable[[Any], Sequence[Cell]]
    build: Callable[[Any, Inputs], Made]
    keep: bool = False
    follow: Callable[[Any, Inputs], Sequence[Cell]] | None = None
    """The cells that only the results of `cells` can name, such as those of what dev chose; trained after these."""
    play: Play | None = None
    plays: Callable[[Any], int] | None = None
    """The number of campaigns it plays with a config."""
    labels: Callable[[Any], Sequence[str]] | None = None
    """The rows that a config's `rows` may change, if a study has any."""
    in_part: bool = False
    """Whether it can train some of its rows `only`."""
    published: tuple[Table, ...] = ()
    """What the papers print, as facts with their source in the title."""

    def accept(self, config: StudyConfig) -> None:
        """Raise InvalidConfig for a config of another study, or one with an option that has no effect on this one."""
        if not isinstance(config, self.config):
            raise InvalidConfig(f"Study {self.id!r} needs a {self.config.__name__}, not a {type(config).__name__}.")
        if not self.in_part:
            config.refuse("only", why="this study trains all of its rows")


@dataclass(frozen=True, slots=True)
class StudyEvent:
    """One event of a running study: how many of its cells are done or failed; `result` on the last event only."""

    message: str
    done: int = 0
    total: int = 0
    failed: int = 0
    cell: str = ""
    result: StudyResult | None = None


STUDIES: Registry[Study] = Registry("crossner_core.experiments.studies", "study", by_name=True)


def register(made: Study) -> Study:
    """Register a study; it must be in a file named after its id in `studies/`."""
    return STUDIES.add(made.id, made)


def study_ids() -> tuple[str, ...]:
    """Return the ids of all studies, sorted; imports none of them."""
    return STUDIES.ids()


def study(id: str) -> Study:
    """Import and return one study; raise InvalidConfig naming the known ones."""
    return STUDIES.one(id)
