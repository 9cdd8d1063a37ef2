"""`workbench corpus`: sentences with links and mentions out of Wikipedia dumps."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import common, corpus_levels
from workbench.commands.common import CampaignName

if TYPE_CHECKING:
    from crossner_core.wikipedia.annotating import AnnotatorSpec
    from crossner_core.wikipedia.build import Progress
    from crossner_core.wikipedia.manifest import Manifest

corpora = typer.Typer(help="Corpora: sentences from Wikipedia dumps.", no_args_is_help=True)
CorpusName = Annotated[str, typer.Argument(help="Corpus, by name or folder.")]
corpus_levels.add_to(corpora)


@corpora.command()
def build(
    dump: Annotated[Path, typer.Argument(help="A pages-articles dump: .xml.bz2 (multistream too), .gz, .xz or .xml.")],
    name: Annotated[str | None, typer.Option(help="Name of the corpus, stored in the home folder.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder of the corpus, instead of a name.")] = None,
    gazetteer: Annotated[str | None, typer.Option(help="Gazetteer that pre-annotates it, by name or folder.")] = None,
    domain: Annotated[
        str | None,
        typer.Option(help="Domain whose entity types the mentions get: the name of a built-in one, or a TOML file."),
    ] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Number of processes. Default: one per processor.")] = None,
    ray: Annotated[
        str | None, typer.Option(help="Build the shards as Ray tasks: the cluster's address, or local.")
    ] = None,
    shard_mb: Annotated[int, typer.Option(help="Megabytes of XML per shard.")] = 16,
    min_tokens: Annotated[int, typer.Option(help="Drop sentences with fewer tokens.")] = 3,
    max_tokens: Annotated[int | None, typer.Option(help="Drop sentences with more tokens. Default: none.")] = None,
    allow_truncated: Annotated[
        bool,
        typer.Option(
            "--allow-truncated", help="Accept a truncated dump and build the corpus from the part that is there."
        ),
    ] = False,
) -> None:
    """Build a corpus from a dump; run the same command again to resume an interrupted build."""
    from crossner_core.wikipedia.build import build_corpus
    from crossner_core.wikipedia.shards import BuildConfig, SentenceRules

    folder = common.new_folder(name, output)
    config = BuildConfig(SentenceRules(min_tokens, max_tokens), shard_mb)
    spec = annotator(gazetteer, domain)
    reporter = _Reporter()
    manifest = build_corpus(
        dump,
        folder,
        config,
        preannotate=spec,
        workers=workers or os.cpu_count() or 1,
        ray=ray,
        allow_truncated=allow_truncated,
        progress=reporter,
    )
    reporter.end()
    typer.echo(f"{folder}: {_line(manifest)}")
    if manifest.truncated:
        typer.echo(f"The dump was incomplete: {manifest.truncated}", err=True)


@corpora.command("list")
def list_() -> None:
    """List the corpora of the home folder."""
    from crossner_core.errors import WorkbenchError
    from crossner_core.folders import named_folders
    from crossner_core.wikipedia.manifest import read_manifest

    rows = []
    for path in named_folders(common.PLACE.settings.corpora):
        try:
            manifest = read_manifest(path)
        except WorkbenchError as error:
            rows.append((path.name, "", "", "", str(error)))
            continue
        counts = manifest.counts
        made_of = manifest.derived_from.name if manifest.derived_from else manifest.source.file
        rows.append((path.name, f"{counts.kept:,}", f"{counts.sentences:,}", f"{counts.tokens:,}", made_of))
    common.table(rows, ("name", "pages", "sentences", "tokens", "made of"))


@corpora.command()
def show(name: CorpusName) -> None:
    """Show what a corpus contains, and the number of pages by outcome."""
    corpus = common.open_corpus(name)
    manifest, counts = corpus.manifest, corpus.manifest.counts
    source = manifest.source
    shards = f"{len(manifest.shards)} shard{'' if len(manifest.shards) == 1 else 's'}"
    typer.echo(f"{corpus.name} · {source.dbname} · {source.file} ({source.bytes:,} bytes) · {shards}")
    if manifest.derived_from is not None:
        typer.echo(f"selected from {manifest.derived_from.name}")
    if manifest.gazetteer is not None:
        typer.echo(f"pre-annotated with {manifest.gazetteer.name} · domain {manifest.domain or 'none'}")
    if manifest.truncated:
        typer.echo(f"The dump was incomplete: {manifest.truncated}")
    sizes = ("paragraphs", "sentences", "tokens", "links", "mentions")
    common.table([(size, f"{getattr(counts, size):,}") for size in sizes], ("what", "number"))
    typer.echo("")
    states = [("kept", "", counts.kept), ("redirect", "", counts.redirects), ("category", "", counts.categories)]
    states += [("skipped", reason, number) for reason, number in counts.skipped.items()]
    states.append(("all", "", counts.pages))
    common.table([(state, reason, f"{number:,}") for state, reason, number in states], ("pages", "reason", "number"))
    typer.echo("")
    parsers = [("fast", "", counts.fast), *(("fallback", why, number) for why, number in counts.fallback.items())]
    common.table([(parser, why, f"{number:,}") for parser, why, number in parsers], ("read by", "reason", "pages"))
    dropped = ", ".join(f"{number:,} {reason}" for reason, number in counts.dropped.items()) or "none"
    typer.echo(
        f"\nsentences dropped: {dropped} · links stretched to whole tokens: {counts.stretched:,}, without a token: "
        f"{counts.lost_links:,} · sentence boundaries undone inside links: {counts.rejoined:,}"
    )


@corpora.command()
def search(
    name: CorpusName,
    text: Annotated[str, typer.Argument(help="Text to search for, ignoring case.")],
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of sentences.")] = 20,
) -> None:
    """Print sentences that contain a text, with their ids."""
    for match in common.open_corpus(name).search(text, limit=limit):
        typer.echo(f"{match.sentence.id}\t{match.sentence.text}")


@corpora.command()
def sample(
    name: Annotated[str, typer.Argument(help="Corpus, by name (see workbench corpus list).")],
    campaign: CampaignName,
    count: Annotated[int, typer.Option(help="Number of sentences to add.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    split: Annotated[str, typer.Option(help="pool, dev or test.")] = "pool",
    min_tokens: Annotated[int, typer.Option(help="Minimum tokens per sentence.")] = 5,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens per sentence.")] = 80,
    min_links: Annotated[int, typer.Option(help="Minimum links per sentence.")] = 0,
    min_mentions: Annotated[
        int, typer.Option(help="Minimum pre-annotated entities (of the given types) per sentence.")
    ] = 0,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Entity type that counts; can be repeated. Default: all.")
    ] = None,
    text: Annotated[str, typer.Option(help="Keep sentences that contain this text.")] = "",
    title: Annotated[str, typer.Option(help="Keep sentences from pages whose title contains this text.")] = "",
    section: Annotated[str, typer.Option(help="Keep sentences under headings that contain this text.")] = "",
    per_page: Annotated[int, typer.Option(help="Maximum sentences per page; 0: no limit.")] = 0,
    likeness: Annotated[
        float,
        typer.Option(help="Leave out sentences that share this fraction of their word trigrams with another one."),
    ] = 0.8,
    preview: Annotated[bool, typer.Option("--preview", help="Print what would be added without adding it.")] = False,
) -> None:
    """Sample a corpus into a campaign: filtered, drawn with a seed, without near-duplicates."""
    from workbench.data import sampling

    plan = sampling.SamplingPlan(
        count=count, seed=seed, split=split, min_tokens=min_tokens, max_tokens=max_tokens, min_links=min_links,
        min_mentions=min_mentions, types=tuple(type_ or ()), text=text, title=title, section=section,
        per_page=per_page, threshold=likeness,
    )  # fmt: skip
    store, actor, campaign_id = common.PLACE.store, common.PLACE.actor, common.find_campaign(campaign).id
    if preview:
        shown = sampling.preview(store, actor, campaign_id, name, plan)
        for sentence in shown.first:
            typer.echo(f"{sentence.sentence.meta['title']}: {sentence.sentence.text}")
        typer.echo(f"Nothing was added. It would be: {shown.report}")
        return
    done = sampling.sample_into_campaign(store, actor, campaign_id, name, plan)
    typer.echo(f"{done}; {done.suggestions:,} suggestions came along. {done.note}".rstrip())


def annotator(gazetteer: str | None, domain: str | None) -> AnnotatorSpec | None:
    """Return how a corpus is pre-annotated; None without a gazetteer."""
    from crossner_core.domains.loader import builtin_domains, domain_to_toml, load_domain, parse_domain
    from crossner_core.gazetteer.manifest import read_manifest
    from crossner_core.wikipedia.annotating import AnnotatorSpec

    if gazetteer is None:
        if domain is not None:
            common.refuse("A domain types the mentions that a gazetteer finds: give --gazetteer too.")
        return None
    named = common.PLACE.settings.gazetteers / gazetteer
    folder = (named if named.is_dir() else Path(gazetteer)).resolve()
    digest = read_manifest(folder).hash
    if domain is None:
        return AnnotatorSpec(str(folder), digest)
    if domain in builtin_domains() or not Path(domain).is_file():
        chosen = load_domain(domain)
    else:
        chosen = parse_domain(common.read_in(Path(domain)).decode("utf-8", "replace"), origin=domain)
    return AnnotatorSpec(str(folder), digest, domain_to_toml(chosen), chosen.name)


class _Reporter:
    """Prints the progress of a build to stderr: a line that is overwritten on a terminal, a few lines elsewhere."""

    def __init__(self) -> None:
        self._begin = self._last = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._said = False

    def __call__(self, now: Progress) -> None:
        passed = time.monotonic()
        if not self._is_terminal and passed - self._last < 30:
            return
        self._last, self._said = passed, True
        share = now.bytes_read / max(1, now.bytes)
        rate = now.sentences / max(1e-9, passed - self._begin)
        taken = f" ({now.reused:,} of an earlier run)" if now.reused else ""
        line = (
            f"{share:4.0%} of the dump handed out · {now.shards:,} shards{taken} · {now.pages:,} pages · "
            f"{now.sentences:,} sentences ({rate:,.0f}/s)"
        )
        print(f"\r{line}\x1b[K" if self._is_terminal else line, end="" if self._is_terminal else "\n", file=sys.stderr)
        sys.stderr.flush()

    def end(self) -> None:
        """End the overwritten line."""
        if self._is_terminal and self._said:
            print(file=sys.stderr)


def _line(manifest: Manifest) -> str:
    counts = manifest.counts
    skipped = sum(counts.skipped.values())
    return (
        f"{counts.pages:,} pages ({counts.kept:,} kept, {counts.redirects:,} redirects, {counts.categories:,} "
        f"categories, {skipped:,} skipped) · {counts.paragraphs:,} paragraphs · {counts.sentences:,} sentences · "
        f"{counts.tokens:,} tokens · {counts.links:,} links · {counts.mentions:,} mentions"
    )
