"""The bundled DBpedia sample, or any N-Triples or Turtle file, queried by SPARQL in process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.errors import BadInput
from crossner_core.gazetteer.queries import (
    FOAF_NAME,
    RDFS_LABEL,
    Answers,
    Query,
    check_language,
    label_query,
    read_answers,
    read_rows,
    title_query,
)
from crossner_core.gazetteer.titles import collapse, is_askable, strip_suffix

if TYPE_CHECKING:
    from pyoxigraph import Quad, Store

SAMPLE = Path(__file__).parent / "sample" / "dbpedia-sample.nt"
SUFFIXES = (".nt", ".ttl")
BATCH = 500

_stores: dict[tuple[Path, int, int, str], Store] = {}
_stores_lock = threading.Lock()


class EmbeddedSource:
    """Answers like an endpoint from a file; loads it at the first look-up, once a process and file state."""

    def __init__(self, path: Path | str = SAMPLE, *, language: str = "en") -> None:
        self.path = Path(path)
        if self.path.suffix not in SUFFIXES:
            raise BadInput(f"{self.path}: a gazetteer file ends in {' or '.join(SUFFIXES)}.")
        self._language = check_language(language)

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    def lookup(self, names: Iterable[str]) -> Answers:
        """Return the typed resources of every name, () where there are none; BadInput if the file is unusable."""
        wanted = list(dict.fromkeys(names))
        askable = [name for name in wanted if is_askable(name)]
        store, answers = load(self.path, self._language), Answers()
        for at in range(0, len(askable), BATCH):
            batch = askable[at : at + BATCH]
            found = _run(store, title_query(batch))
            untitled = [name for name in batch if not found[name]]
            if untitled:
                found |= _run(store, label_query(untitled, self._language))
            answers |= found
        return {name: answers.get(name, ()) for name in wanted}


def load(path: Path, language: str = "en") -> Store:
    """Return the store of a file, from memory unless the file changed."""
    try:
        state = path.stat()
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}).") from error
    key = (path.resolve(), state.st_mtime_ns, state.st_size, language)
    with _stores_lock:
        if key not in _stores:
            _stores[key] = _read(path, language)
        return _stores[key]


def _read(path: Path, language: str) -> Store:
    from pyoxigraph import RdfFormat, Store

    store = Store()
    try:
        store.load(path=str(path), format=RdfFormat.TURTLE if path.suffix == ".ttl" else RdfFormat.N_TRIPLES)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from error
    except (SyntaxError, ValueError) as error:
        raise BadInput(f"{path}: is no valid {path.suffix[1:]} file: {error}") from error
    store.extend(list(_aliases(store, language)))
    return store


def _aliases(store: Store, language: str) -> Iterator[Quad]:
    """Yield names that the file only implies: `Queen (band)` is also called `Queen`, and untagged labels count too."""
    from pyoxigraph import Literal, NamedNode, Quad

    name = NamedNode(FOAF_NAME)
    for predicate in (NamedNode(RDFS_LABEL), name):
        for quad in store.quads_for_pattern(None, predicate, None, None):
            written = quad.object
            if not isinstance(written, Literal) or written.language not in (None, language):
                continue
            title = collapse(written.value)
            if written.language is None:
                yield Quad(quad.subject, predicate, Literal(title, language=language))
            if alias := strip_suffix(title):
                yield Quad(quad.subject, name, Literal(alias, language=language))


def _run(store: Store, query: Query) -> Answers:
    from pyoxigraph import QueryResultsFormat, QuerySolutions

    results = store.query(query.text)
    assert isinstance(results, QuerySolutions)  # both queries are SELECT
    document = json.loads(results.serialize(format=QueryResultsFormat.JSON) or b"")
    return read_answers(query, read_rows(document))
