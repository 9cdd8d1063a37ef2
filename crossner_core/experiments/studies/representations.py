"""Entity representations: do an encoder's vectors of entities lie by type before any training? Nothing is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from crossner_core.domains import builtin_domains, load_domain
from crossner_core.errors import InvalidConfig
from crossner_core.experiments.analysis.representations import (
    Picture,
    Projection,
    entity_vectors,
    per_type_table,
    pick_entities,
    pictures_figure,
    places,
    separation,
    separation_table,
)
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Table
from crossner_core.options.base import option

TITLE = "Entity representations"


@dataclass(frozen=True)
class RepresentationsConfig(StudyConfig):
    """How many entities are drawn, and how; the first of the seeds chooses them and starts the picture."""

    most: int = option(1000, "Most entities of a corpus; of more so many are taken by chance.", min=20, max=20_000)
    method: str = option("tsne", "What draws the picture; umap is an extra package.", choices=("tsne", "umap"))
    perplexity: float = option(30.0, "Perplexity of t-SNE: about how many neighbours count.", min=2.0, max=200.0)
    neighbours: int = option(15, "Neighbours of UMAP: fewer show the detail, more the whole.", min=2, max=200)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse("rows", why="nothing is trained, so there are no rows of recipes")
        if unused := sorted(set(self.recipe) - {"encoder", "device"}):
            raise InvalidConfig(
                f"recipe sets {', '.join(unused)}, but nothing is trained: of a recipe, encoder and device count here. "
                "Leave it out."
            )

    @property
    def projection(self) -> Projection:
        """How the pictures are made."""
        return Projection(self.method, self.perplexity, self.neighbours)


def build(config: RepresentationsConfig, inputs: Inputs) -> Made:
    """Make the table of separations, one by type for each corpus, and the pictures: a row a corpus."""
    # Late, so that studies can be listed without torch.
    from crossner_core.encoders import load_encoder

    named = config.labelled_encoders or {config.recipe_of().encoder: config.recipe_of().encoder}
    pictures: list[Picture] = []
    notes: list[str] = []
    how = _how(config)
    for corpus in config.corpora:
        test = read_corpus(corpus, inputs.data).test
        chosen = pick_entities(test, config.most, np.random.default_rng(config.seeds[0]))
        for label, name in named.items():
            encoder = load_encoder(name.replace("{corpus}", corpus))
            entities = entity_vectors(chosen, encoder, device=config.recipe_of().device)
            positions = places(entities.vectors, config.seeds[0], config.projection)
            pictures.append(Picture(corpus, label, positions, entities, separation(entities)))
            notes.append(f"{corpus}, {label}: weights {encoder.fingerprint[:12]}.")
    figure = pictures_figure(TITLE, pictures, len(named), _colours(config.corpora))
    return Made(_tables(config, pictures), figure, (*notes, how))


def _colours(corpora: Sequence[str]) -> dict[str, int]:
    """Return the colours that types have in annotation, where corpora are domains of the workbench."""
    domains = (load_domain(name) for name in corpora if name in builtin_domains())
    return {entity_type.name: entity_type.color for domain in domains for entity_type in domain.types}


def _tables(config: RepresentationsConfig, pictures: Sequence[Picture]) -> tuple[Table, ...]:
    by_type = (
        per_type_table(
            f"5-NN accuracy by entity type: {corpus}", [picture for picture in pictures if picture.corpus == corpus]
        )
        for corpus in config.corpora
    )
    return (separation_table(TITLE, pictures), *by_type)


def _how(config: RepresentationsConfig) -> str:
    return (
        f"{config.projection.described}, seed {config.seeds[0]}; at most {config.most:,} entities a corpus. "
        "Distances in the picture are not to be read: the table measures in the whole space."
    )


register(
    Study(
        id="representations",
        title=TITLE,
        question="Do an encoder's vectors of entities lie by entity type before it is trained on the target?",
        reference="Liu et al. 2021 (NER-BERT), figure 3",
        config=RepresentationsConfig,
        corpora=("politics",),
        cells=lambda config: (),
        build=build,
    )
)
