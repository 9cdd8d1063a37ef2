"""What is derived from a corpus: `workbench corpus select`, `levels`, `export`, `entity-tagging`, `overlap`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common

if TYPE_CHECKING:
    from crossner_core.gazetteer.ontology import ClassTree
    from crossner_core.schema import Sentence
    from crossner_core.vocabulary import Vocabulary
    from crossner_core.wikipedia.corpus import Corpus
    from crossner_core.wikipedia.tagged_corpus import TaggingFigure

CorpusName = Annotated[str, typer.Argument(help="Corpus: its name, or its folder.")]
DomainName = Annotated[str, typer.Option("--domain", "-d", help="Domain, by name (see workbench domain list).")]
Ontology = Annotated[
    Path | None,
    typer.Option(help="Ontology file. Default: the class tree of the corpus's gazetteer, or the bundled one."),
]
Entities = Annotated[int, typer.Option(help="Entity level: minimum number of known entities per sentence.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")]
Seed = Annotated[int, typer.Option(help="Seed of the sample.")]
_DATA = (".txt", ".conll", ".tsv", ".jsonl", ".iob", ".bio", ".iob2", ".conllu")


def add_to(group: typer.Typer) -> None:
    """Add the commands of this file."""
    group.command("select")(select)
    group.command("levels")(levels)
    group.command("export")(export)
    group.command("entity-tagging")(entity_tagging)
    group.command("tagging-figure")(tagging_figure)
    group.command("tagged-sentences")(tagged_sentences)
    group.command("overlap")(overlap)


def select(
    corpus: CorpusName,
    root: Annotated[list[str], typer.Option(help="Root category; can be repeated.")],
    depth: Annotated[int, typer.Option(help="Depth below a root; 0: the roots only.")] = 4,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Category to exclude with its subcategories; can be repeated.")
    ] = None,
    categories: Annotated[
        list[Path] | None,
        typer.Option(
            help="The dump's page, categorylinks and linktarget .sql.gz, or DBpedia's skos_categories and "
            "article_categories; repeat the option for each. Default: the categories in the pages' wikitext."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the new corpus, stored in the home folder.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the new corpus, instead of a name.")
    ] = None,
) -> None:
    """Make a corpus of the pages in a part of the category tree."""
    from crossner_core.wikipedia.categories import TreeConfig
    from crossner_core.wikipedia.categories import select as choose
    from crossner_core.wikipedia.category_tables import CorpusCategories, read_categories

    folder, source = common.new_folder(name, output), common.open_corpus(corpus)
    config = TreeConfig(tuple(root), depth, tuple(exclude or ()))
    made = choose(
        source,
        read_categories(categories) if categories else CorpusCategories(source),
        config,
        folder,
        progress=lambda done, shards: _progress(f"shard {done} of {shards}"),
    )
    counts, parent = made.manifest.counts, made.manifest.derived_from
    by_depth = parent.how["categories_by_depth"] if parent else []
    typer.echo(f"{made.folder}: categories by depth {', '.join(f'{number:,}' for number in by_depth)}")
    rows = [(made.name, counts.kept, counts.paragraphs, counts.sentences, counts.tokens)]
    common.table([[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows], _TABLE_1)


_TABLE_1 = ("corpus", "pages", "paragraphs", "sentences", "tokens")


def levels(corpus: CorpusName, domain: DomainName, entities: Entities = 2, ontology: Ontology = None) -> None:
    """Count a corpus's sentences at each level for a domain: domain, entity, task and integrated."""
    from crossner_core.wikipedia.levels import LevelConfig, Levels

    source, about = common.open_corpus(corpus), common.find_domain(domain)
    levels = Levels(source, about, tree=_tree(source, ontology), config=LevelConfig(entities=entities))
    rows = [
        (
            level.level, f"{level.sentences:,}", f"{level.tokens:,}", f"{level.ratio:.2f}x",
            "–" if level.published is None else f"{level.published:.2f}x",
        )
        for level in levels.counts()
    ]  # fmt: skip
    common.table(rows, ("level", "sentences", "tokens", "ratio", "CrossNER"))
    typer.echo(f"specialised types: {', '.join(sorted(levels.specialised)) or 'none'}")


def export(
    corpus: CorpusName,
    domain: DomainName,
    level: Annotated[str, typer.Option(help="domain, entity, task or integrated.")] = "integrated",
    percent: Annotated[
        float, typer.Option(help="Percentage of the level; smaller samples are subsets of larger ones.")
    ] = 100.0,
    seed: Seed = 0,
    entities: Entities = 2,
    ontology: Ontology = None,
    output: Output = None,
) -> None:
    """Write a share of a level as plain text, one sentence per line."""
    from crossner_core.subsets import check_percent
    from crossner_core.wikipedia.levels import LevelConfig, Levels, check_level

    check_level(level)
    check_percent(percent)
    source, config = common.open_corpus(corpus), LevelConfig(entities=entities)
    levels = Levels(source, common.find_domain(domain), tree=_tree(source, ontology), config=config)
    lines = (" ".join(text.split()) + "\n" for text in levels.texts(level, percent, seed))
    if output is None or str(output) == "-":
        for line in lines:
            sys.stdout.write(line)
        return
    beside = output.with_name(f".{output.name}.part")
    written = 0
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(line)
                written += 1
        beside.replace(output)
    except OSError as error:
        common.refuse(f"{output} cannot be written: {error.strerror or error}.")
    typer.echo(f"{output}: {written:,} sentences", err=True)


def entity_tagging(
    corpus: CorpusName,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")],
    version: Annotated[str, typer.Option(help="full, merged or 4types.")] = "full",
    seed: Seed = 0,
    epoch: Annotated[int, typer.Option(help="Sentences per epoch; 0: all that pass the filters.")] = 0,
    min_entities: Annotated[int, typer.Option(help="Drop classes with fewer entities.")] = 10,
    alpha: Annotated[
        float,
        typer.Option(
            help="Exponent of the balancing: 1 keeps the natural distribution, 0 makes all categories equally frequent."
        ),
    ] = 0.7,
    balance: Annotated[bool, typer.Option(help="Sample sentences so that rare categories occur more often.")] = True,
    merge_depth: Annotated[int, typer.Option(help="merged: maximum depth below Person, Place, Work …")] = 2,
    merge_below: Annotated[
        int, typer.Option(help="merged: classes with fewer mentions are merged into their parent.")
    ] = 0,
    ontology: Ontology = None,
) -> None:
    """Make NER-BERT's entity-tagging corpus: links with the classes of their pages, filtered and balanced."""
    from crossner_core.wikipedia.entity_tagging import TaggingConfig, build_tagging_corpus

    source = common.open_corpus(corpus)
    config = TaggingConfig(
        seed=seed,
        min_entities=min_entities,
        alpha=alpha,
        balance=balance,
        epoch=epoch,
        version=version,
        merge_depth=merge_depth,
        merge_below=merge_below,
    )
    made = build_tagging_corpus(
        source,
        output,
        config,
        tree=_tree(source, ontology),
        progress=lambda step, sentences: _progress(f"{step}: {sentences:,} sentences"),
    )
    rows = [
        (step.step, f"{step.sentences:,}", f"{step.mentions:,}", f"{step.unlabelled:,}", step.categories)
        for step in made.steps
    ]
    common.table(rows, ("step", "sentences", "mentions", "ENTITY", "categories"))


def tagging_figure(
    folder: Annotated[Path, typer.Argument(help="Folder of an entity-tagging corpus.")],
    format: Annotated[str, typer.Option(help="html (the plot), csv or markdown.")] = "markdown",
    output: Output = None,
) -> None:
    """Plot an entity-tagging corpus's mentions by category before and after balancing, or write them as a table."""
    from crossner_core.wikipedia.tagged_corpus import TaggingManifest

    manifest = TaggingManifest.read(folder)
    if format == "html":
        page = _tagging_page(manifest.figure, title=f"Entity-tagging corpus of {manifest.corpus_name}")
        common.write_out(page.encode(), output)
        return
    common.write_out(_formatted(manifest.figure, format), output)


def tagged_sentences(
    folder: Annotated[Path, typer.Argument(help="Folder of an entity-tagging corpus.")],
    count: Annotated[int, typer.Option(help="Maximum number of sentences.", min=1)] = 6000,
    seed: Seed = 0,
    ontology: Annotated[Path | None, typer.Option(help="Ontology file. Default: the bundled class tree.")] = None,
    output: Output = None,
) -> None:
    """Write sentences of an entity-tagging corpus as JSON lines, to import as a data set and learn from as a source."""
    from crossner_core.formats import write
    from crossner_core.gazetteer.ontology import BUILTIN, read_ontology
    from crossner_core.wikipedia.tagged_corpus import typed_sentences

    tree = BUILTIN if ontology is None else read_ontology(ontology)
    items = typed_sentences(folder, tree.parents, count, seed=seed)
    common.write_out(write(items, "jsonl").encode(), output)
    types = {span.type for item in items for span in item.spans}
    typer.echo(f"{len(items):,} sentences, {len(types)} types", err=True)


def overlap(
    sources: Annotated[
        list[str],
        typer.Argument(help="Corpora, data files or folders of data files; NAME=SOURCE gives one another name."),
    ],
    top: Annotated[int, typer.Option(help="Number of most frequent words to compare.")] = 5000,
    limit: Annotated[int | None, typer.Option(help="Read only this many sentences of each source.")] = None,
    format: Annotated[str, typer.Option(help="csv or markdown.")] = "markdown",
    output: Output = None,
) -> None:
    """Compare the vocabularies of corpora and labelled files: the percentage of words in common."""
    from crossner_core.vocabulary import overlap as compare

    common.write_out(_formatted(compare(_vocabulary(name, top, limit) for name in sources), format), output)


_BEFORE, _AFTER = "#8a94a3", "#1f6fb4"  # readable on white


def _tagging_page(figure: TaggingFigure, *, title: str) -> str:
    """Return one self-contained HTML page: two bars per category on a log scale, the most frequent first."""
    import plotly.graph_objects as go

    drawn = go.Figure()
    for name, counts, colour in (("before", figure.before, _BEFORE), ("after", figure.after, _AFTER)):
        drawn.add_bar(x=list(figure.categories), y=list(counts), name=name, marker={"color": colour})
    drawn.update_layout(
        title={"text": title},
        barmode="group",
        template="plotly_white",
        yaxis={"type": "log", "title": {"text": "mentions"}},
        xaxis={"title": {"text": "category"}, "tickangle": -60},
    )
    return str(drawn.to_html(include_plotlyjs=True, full_html=True))


def _vocabulary(text: str, top: int, limit: int | None) -> Vocabulary:
    from crossner_core.vocabulary import sentence_words, vocabulary

    name, _, source = text.rpartition("=")
    path = Path(source)
    if path.is_file():
        return vocabulary(name or path.stem, sentence_words(_sentences([path], limit)), top=top)
    files = sorted(file for file in path.glob("*") if file.suffix in _DATA) if path.is_dir() else []
    if files and not (path / "manifest.json").is_file():
        return vocabulary(name or path.name, sentence_words(_sentences(files, limit)), top=top)
    corpus = common.open_corpus(source)
    return vocabulary(name or corpus.name, corpus.words(limit), top=top)


def _sentences(files: list[Path], limit: int | None) -> Iterator[Sentence]:
    from crossner_core.formats import open_file

    whole = (record.sentence for file in files for record in open_file(file).sentences)
    return islice(whole, limit)


def _tree(corpus: Corpus, ontology: Path | None) -> ClassTree:
    """Read the ontology named, or take the tree of the gazetteer that annotated the corpus if it is still here."""
    from crossner_core.gazetteer.ontology import read_ontology
    from workbench.data.corpora import class_tree

    return read_ontology(ontology) if ontology is not None else class_tree(common.PLACE.settings, corpus)


def _formatted(table: object, format: str) -> bytes:
    if format not in ("csv", "markdown"):
        common.refuse(f"There is no format {format!r} for a table; give csv or markdown.")
    text: str = table.to_csv() if format == "csv" else table.to_markdown()  # type: ignore[attr-defined]
    return text.encode()


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{text}", nl=False, err=True)
