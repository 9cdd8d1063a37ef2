"""The transfer settings: one file or package each in this folder, discovered automatically; imported without torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from crossner_core.encoders.names import TRANSFORMER, kind_named
from crossner_core.errors import InvalidConfig
from crossner_core.registry import Registry
from crossner_core.training.stage import Stage

Planner = TypeVar("Planner", bound=Callable[..., tuple[Stage, ...]])


@dataclass(frozen=True, slots=True)
class Setting:
    """A transfer setting by its id; its title is a short name, a colon, and what it does.

    `unlabelled`: it also uses unlabelled target sentences; `source`: it reads a source corpus; `together`: it trains
    one stage on source and target, with the source's rates, batches and epochs; `subwords`: it needs an encoder that
    reads them. `architectures` are those that it can train, all if empty. `refuse` raises InvalidConfig for a Recipe
    that it cannot train for another reason. `order` is its position among all settings, in forms and messages.
    """

    id: str
    title: str
    planner: Callable[..., tuple[Stage, ...]]
    order: int
    unlabelled: bool = False
    source: bool = True
    together: bool = False
    subwords: bool = False
    architectures: tuple[str, ...] = ()
    refuse: Callable[[Any], None] | None = None

    def trains(self, architecture: str) -> bool:
        """Return whether it can train an architecture."""
        return not self.architectures or architecture in self.architectures

    def check(self, recipe: Any) -> None:
        """Raise InvalidConfig if it cannot train a Recipe, as far as that can be told before anything is loaded."""
        if not self.trains(recipe.architecture):
            raise InvalidConfig(
                f"architecture is {recipe.architecture!r}, which the setting {self.id!r} cannot train; choose "
                f"{' or '.join(self.architectures)}."
            )
        # What a library's name stands for only the encoder itself tells.
        if self.subwords and kind_named(recipe.encoder) != TRANSFORMER:
            raise InvalidConfig(
                f"encoder is {recipe.encoder!r}, which reads no subwords, and the setting {self.id!r} needs them; "
                "choose a BERT-like encoder."
            )
        if self.refuse is not None:
            self.refuse(recipe)

    def plan(self, recipe: Any, data: Any) -> tuple[Stage, ...]:
        """Plan the stages of a run from its Recipe and TrainingData (not imported here, as recipes import the ids).

        Raises InvalidConfig if the setting needs source sentences and there are none, or cannot train the recipe.
        """
        self.check(recipe)
        if self.source and not data.source_train:
            raise InvalidConfig(
                f"Setting {recipe.setting!r} needs sentences of the source corpus {recipe.source!r}, and there are "
                "none; import them first, or choose the setting direct."
            )
        return self.planner(recipe, data)


SETTINGS: Registry[Setting] = Registry(
    "crossner_core.training.settings", "transfer setting", apart=("registry",), order=lambda setting: setting.order
)


def register_setting(
    id: str,
    title: str,
    *,
    order: int,
    unlabelled: bool = False,
    source: bool = True,
    together: bool = False,
    subwords: bool = False,
    architectures: tuple[str, ...] = (),
    refuse: Callable[[Any], None] | None = None,
) -> Callable[[Planner], Planner]:
    """Register a function that plans the stages of a run from (recipe, data); see Setting.

    It is in a file of this folder, or in the `plan.py` of a package there that imports it, without torch.
    """

    def keep(plan: Planner) -> Planner:
        asked = (unlabelled, source, together, subwords, architectures, refuse)
        SETTINGS.add(id, Setting(id, title, plan, order, *asked))
        return plan

    return keep


def setting_ids() -> tuple[str, ...]:
    """Return the ids of all transfer settings, in their order."""
    return SETTINGS.ids()


def setting(id: str) -> Setting:
    """Return one setting; raise InvalidConfig naming the known ones."""
    return SETTINGS.one(id)


def needs_source(id: str) -> bool:
    """Return whether a setting reads the source corpus."""
    return setting(id).source


def needs_unlabelled(id: str) -> bool:
    """Return whether a setting also uses unlabelled target sentences."""
    return setting(id).unlabelled


def is_together(id: str) -> bool:
    """Return whether a setting trains one stage on source and target, with the source's rates, batches and epochs."""
    return setting(id).together
