"""The demo's gazetteer and corpus: invented pages of an invented wiki, built by the same steps as a real dump."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import as_file, files

from crossner_core.errors import WorkbenchError
from workbench.settings import Settings

NAME, DOMAIN = "demo", "music"


def make_if_absent(settings: Settings) -> Iterator[str]:
    """Build gazetteer and corpus where the home folder has neither kind yet; yield the lines to print.

    An error is printed and stops nothing: the workbench runs without them.
    """
    if settings.gazetteers.exists() or settings.corpora.exists():
        return
    try:
        yield _make(settings)
    except (WorkbenchError, OSError) as error:
        yield f"The demo's corpus was not made: {error}"


def _make(settings: Settings) -> str:
    from crossner_core.domains import domain_to_toml, load_domain
    from crossner_core.gazetteer.building import build_from_dumps
    from crossner_core.gazetteer.lookup import SAMPLE
    from crossner_core.wikipedia.annotating import AnnotatorSpec
    from crossner_core.wikipedia.build import build_corpus

    gazetteer, corpus = settings.gazetteers / NAME, settings.corpora / NAME
    folder = files("workbench.demo")
    with as_file(folder.joinpath("wiki.nt")) as facts, as_file(folder.joinpath("wiki.xml")) as dump:
        known = build_from_dumps([SAMPLE, facts], gazetteer, name=NAME)
        toml = domain_to_toml(load_domain(DOMAIN))
        spec = AnnotatorSpec(str(gazetteer), known.hash, toml, DOMAIN)
        made = build_corpus(dump, corpus, preannotate=spec)
    return f"Demo corpus of invented pages: {made.counts.sentences} sentences, {made.counts.mentions} known names."
