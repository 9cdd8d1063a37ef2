"""Entity representations: do an encoder's entity vectors cluster by type before any training? Nothing is trained.

Source: Liu et al. 2021 (NER-BERT), figure 3: vectors of the first token of each gold entity of a test set, by t-SNE.
UMAP is not in the paper, nor are the numbers next to the picture: they are computed in the original space, before any
projection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from crossner_core.colours import MARKS
from crossner_core.domains import builtin_domains, load_domain
from crossner_core.errors import BadInput, InvalidConfig
from crossner_core.experiments.corpora import read_corpus
from crossner_core.experiments.study import Inputs, Made, Study, StudyConfig, register
from crossner_core.experiments.tables import Table, Value
from crossner_core.options.base import option
from crossner_core.schema import LabelledSentence

if TYPE_CHECKING:
    from crossner_core.encoders.base import Encoder

TITLE = "Entity representations"
NEIGHBOURS = 5
LEAST = 3 * (NEIGHBOURS + 1)
# With more types than colours, colours repeat with another symbol.
_SYMBOLS = ("circle", "cross", "diamond", "x", "square", "star")


@dataclass(frozen=True, slots=True)
class EntityVectors:
    """Vectors (N, H) of the first token of N entities, with type and surface of each."""

    vectors: np.ndarray
    types: tuple[str, ...]
    surfaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Separation:
    """How well types separate: silhouette in [−1, 1], and shares of entities in [0, 1].

    `accuracy`: those whose 5 nearest neighbours (without the entity itself) vote for the correct type; `chance`: those
    of the commonest type, the accuracy of always guessing it.
    """

    silhouette: float
    accuracy: float
    chance: float
    per_type: Mapping[str, float]
    """Accuracy of each type, the commonest first."""


@dataclass(frozen=True)
class Picture:
    """One encoder's entities of one corpus: positions (N, 2), and measures in the original space."""

    corpus: str
    encoder: str
    places: np.ndarray
    entities: EntityVectors
    separation: Separation


def pick_entities(
    items: Sequence[LabelledSentence], most: int, rng: np.random.Generator
) -> list[tuple[LabelledSentence, int]]:
    """Return entities as (sentence, index in its spans), all or a random sample of `most`, in text order."""
    every = [(item, index) for item in items for index in range(len(item.spans))]
    if len(every) <= most:
        return every
    return [every[index] for index in sorted(rng.choice(len(every), size=most, replace=False).tolist())]


def entity_vectors(
    chosen: Sequence[tuple[LabelledSentence, int]], encoder: Encoder, *, batch_size: int = 32, device: str = "auto"
) -> EntityVectors:
    """Return the encoder's last-layer vectors of the first subword of each entity, in the order given."""
    import torch

    from crossner_core.encoders.base import vectors as hidden_vectors
    from crossner_core.training.batches import ordered_batches
    from crossner_core.training.machine import pick_device

    items = list({id(item): item for item, _ in chosen}.values())
    row_of = {id(item): row for row, item in enumerate(items)}
    wanted: dict[int, list[tuple[int, int]]] = {}  # sentence → (place in the answer, token)
    for position, (item, index) in enumerate(chosen):
        wanted.setdefault(row_of[id(item)], []).append((position, item.spans[index].start))
    windows = encoder.windows([item.sentence for item in items])
    vectors = np.zeros((len(chosen), encoder.hidden_size), dtype=np.float32)
    where = pick_device(device)
    encoder.model.to(where).eval()
    with torch.inference_mode():
        for indices in ordered_batches([len(window.input_ids) for window in windows], batch_size):
            batch = encoder.collate([windows[index] for index in indices]).to(where)
            states = hidden_vectors(encoder.model, batch).float().cpu().numpy()  # (B, L, H)
            for row, window in enumerate(windows[index] for index in indices):
                for position, token in wanted[window.sentence]:
                    if window.start <= token < window.end:
                        vectors[position] = states[row, window.positions[token - window.start]]
    spans = [(item.sentence, item.spans[index]) for item, index in chosen]
    surfaces = tuple(sentence.surface(span.start, span.end) for sentence, span in spans)
    return EntityVectors(vectors, tuple(span.type for _, span in spans), surfaces)


def separation(entities: EntityVectors) -> Separation:
    """Measure in the original space, by Euclidean distance; raise BadInput for too few entities or a single type."""
    from sklearn.metrics import silhouette_score
    from sklearn.neighbors import NearestNeighbors

    types, counts = entities.types, Counter(entities.types)
    if len(types) < LEAST or len(counts) < 2:
        raise BadInput(f"{len(types)} entities of {len(counts)} types: it takes {LEAST} of two types or more.")
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(entities.vectors).kneighbors(return_distance=False)  # (N, 5)
    # Ties go to the type of the nearest neighbour: `most_common` keeps insertion order.
    guesses = [Counter(types[index] for index in row).most_common(1)[0][0] for row in near.tolist()]
    right = Counter(gold for gold, guess in zip(types, guesses, strict=True) if gold == guess)
    return Separation(
        silhouette=float(silhouette_score(entities.vectors, np.asarray(types))),
        accuracy=sum(right.values()) / len(types),
        chance=counts.most_common(1)[0][1] / len(types),
        per_type={name: right[name] / count for name, count in counts.most_common()},
    )


@dataclass(frozen=True, slots=True)
class Projection:
    """How to project: `method` is tsne, with its perplexity, or umap, with its number of neighbours."""

    method: str = "tsne"
    perplexity: float = 30.0
    neighbours: int = 15

    @property
    def described(self) -> str:
        """Method and settings in words; raises InvalidConfig if UMAP is requested but not installed."""
        if self.method == "tsne":
            return f"t-SNE of scikit-learn {version('scikit-learn')}: perplexity {self.perplexity:g}, start by PCA"
        try:
            return f"UMAP of umap-learn {version('umap-learn')}: {self.neighbours} neighbours"
        except PackageNotFoundError as error:
            raise InvalidConfig(
                "UMAP is not installed: pip install -r requirements-umap.txt, or use the method tsne."
            ) from error


def places(vectors: np.ndarray, seed: int, projection: Projection = Projection()) -> np.ndarray:
    """Return positions (N, 2) in the plane; perplexity and neighbours are capped to what N vectors allow."""
    count = len(vectors)
    if projection.method == "tsne":
        from sklearn.manifold import TSNE

        tsne = TSNE(perplexity=min(projection.perplexity, (count - 1) / 3), init="pca", random_state=seed, n_jobs=1)
        return np.asarray(tsne.fit_transform(vectors))
    from umap import UMAP

    return np.asarray(
        UMAP(n_neighbors=min(projection.neighbours, count - 1), random_state=seed, n_jobs=1).fit_transform(vectors)
    )


def separation_table(title: str, pictures: Iterable[Picture]) -> Table:
    """Return one row per corpus and encoder."""
    rows = tuple(
        (
            picture.corpus,
            picture.encoder,
            len(picture.entities.types),
            len(picture.separation.per_type),
            100 * picture.separation.accuracy,
            100 * picture.separation.chance,
            round(picture.separation.silhouette, 3),
        )
        for picture in pictures
    )
    columns = ("corpus", "encoder", "entities", "types", "5-NN accuracy", "commonest type", "silhouette")
    note = (
        "Vectors of the first token of gold entities of the test set, last layer, whole space, Euclidean distance. "
        "5-NN accuracy: share of entities, in percent, to which most of their five nearest neighbours give the right "
        "type; commonest type: what guessing that one would reach; silhouette: 1 is apart, 0 mixed, below 0 wrong."
    )
    return Table(title, columns, rows, note)


def per_type_table(title: str, pictures: Sequence[Picture]) -> Table:
    """Return the 5-NN accuracy of each type of one corpus, one column per encoder."""
    counts = Counter(pictures[0].entities.types)
    rows: list[tuple[Value, ...]] = [
        (name, *(100 * picture.separation.per_type[name] for picture in pictures), count)
        for name, count in counts.most_common()
    ]
    columns = ("entity type", *(picture.encoder for picture in pictures), "entities")
    return Table(title, columns, tuple(rows), "5-NN accuracy in percent.")


def pictures_figure(
    title: str, pictures: Sequence[Picture], columns: int, colours: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Draw each picture in its own plot, `columns` side by side; a type keeps its colour and symbol in all.

    `colours` are indices into MARKS by type, as in domains; types without one use the remaining colours in turn.
    """
    types = list(dict.fromkeys(name for picture in pictures for name in sorted(set(picture.entities.types))))
    lines = -(-len(pictures) // columns)
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "title": {"text": title},
        "grid": {"rows": lines, "columns": columns, "pattern": "independent"},
        "height": 120 + 460 * lines,
        "annotations": [],
    }
    looks = _looks(types, colours or {})
    shown: set[str] = set()
    for number, picture in enumerate(pictures):
        suffix = str(number + 1) if number else ""
        for name in sorted(set(picture.entities.types), key=types.index):
            data.append(_points(picture, name, looks[name], suffix, name not in shown))
            shown.add(name)
        layout[f"xaxis{suffix}"] = layout[f"yaxis{suffix}"] = {"visible": False}
        layout["annotations"].append(_caption(picture, suffix))
    return {"data": data, "layout": layout}


def _looks(types: Sequence[str], colours: Mapping[str, int]) -> dict[str, dict[str, str]]:
    """Return colour and symbol by type; a repeated colour gets another symbol."""
    free = [index for index in range(len(MARKS)) if index not in colours.values()] or list(range(len(MARKS)))
    unknown = [name for name in types if name not in colours]
    indices = {name: free[index % len(free)] for index, name in enumerate(unknown)} | dict(colours)
    used, looks = Counter[int](), dict[str, dict[str, str]]()
    for name in types:
        index = indices[name] % len(MARKS)
        looks[name] = {"color": MARKS[index], "symbol": _SYMBOLS[used[index] % len(_SYMBOLS)]}
        used[index] += 1
    return looks


def _points(picture: Picture, name: str, look: Mapping[str, str], suffix: str, in_legend: bool) -> dict[str, Any]:
    rows = [row for row, type_name in enumerate(picture.entities.types) if type_name == name]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "legendgroup": name,
        "showlegend": in_legend,
        "x": [round(float(picture.places[row, 0]), 2) for row in rows],
        "y": [round(float(picture.places[row, 1]), 2) for row in rows],
        "text": [picture.entities.surfaces[row] for row in rows],
        "hovertemplate": "%{text}<extra>" + name + "</extra>",
        "marker": {"size": 5, **look},
        "xaxis": f"x{suffix}",
        "yaxis": f"y{suffix}",
    }


def _caption(picture: Picture, suffix: str) -> dict[str, Any]:
    text = f"{picture.corpus}, {picture.encoder}: 5-NN {100 * picture.separation.accuracy:.1f} %"
    where = {"xref": f"x{suffix} domain", "yref": f"y{suffix} domain", "x": 0.5, "y": 1.0}
    return {"text": text, "showarrow": False, "xanchor": "center", "yanchor": "bottom", **where}


@dataclass(frozen=True)
class RepresentationsConfig(StudyConfig):
    """How many entities are sampled and how they are projected; the first seed is used for both."""

    most: int = option(
        1000, "Maximum number of entities per corpus; larger sets are sampled at random.", min=20, max=20_000
    )
    method: str = option("tsne", "Projection method; umap needs an extra package.", choices=("tsne", "umap"))
    perplexity: float = option(
        30.0, "Perplexity of t-SNE: roughly the number of neighbours that count.", min=2.0, max=200.0
    )
    neighbours: int = option(
        15, "Number of neighbours of UMAP: few show local structure, many show global structure.", min=2, max=200
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.refuse("rows", why="nothing is trained, so there are no rows of recipes")
        if unused := sorted(set(self.recipe) - {"encoder", "device"}):
            raise InvalidConfig(
                f"recipe sets {', '.join(unused)}, but nothing is trained: of a recipe, only encoder and device have "
                "an effect here. Leave it out."
            )

    @property
    def projection(self) -> Projection:
        """The projection of the pictures."""
        return Projection(self.method, self.perplexity, self.neighbours)


def build(config: RepresentationsConfig, inputs: Inputs) -> Made:
    """Make the table of separations, one by type for each corpus, and the pictures, one row per corpus."""
    # Imported late, so that studies can be listed without torch.
    from crossner_core.encoders.loading import load_encoder

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
    """Return the colours of types in annotation, if corpora are domains of the workbench."""
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
