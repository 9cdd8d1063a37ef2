"""CoNLL-2003's four columns: word, part of speech, chunk and tag, with -DOCSTART- before each document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossner_core.formats import conll
from crossner_core.formats.base import Format, InputFile, NamedFile, Parsed, ReadOptions, get_format, register
from crossner_core.formats.conll import ConllLayout, ConllNotes, ConllOptions
from crossner_core.formats.standoff import file_of
from crossner_core.formats.text import links

_START = "-DOCSTART- -X- -X- O"


@dataclass(frozen=True)
class FourColumns(ConllLayout):
    """Four columns cut by blanks."""

    separator: str = " "
    width: int = 4
    tag_column: int | None = 3


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write all documents into one file; part of speech and chunk are `_`, since nothing here has them."""
    blocks = []
    for document in documents:
        losses["links"] += links(document.sentences, document.layout)
        bare = sum(record.spans is None for record in document.sentences)
        losses["sentences without annotation, written as without entities"] += bare
        layout = FourColumns(type_map=document.layout.type_map)
        losses["tokens unchanged"] += conll.changed_tokens(document.sentences, layout)
        pieces = [conll.render(record, layout) for record in document.sentences]
        blocks.append("\n\n".join([_START, *pieces]))
    yield file_of(documents, ".conll"), ("\n\n".join(blocks) + "\n\n").encode()


def read(files: Sequence[InputFile], options: ReadOptions) -> Iterator[Parsed]:
    """Read as any columns are read."""
    return iter(get_format("conll").reader(files, options))


register(
    Format(
        "conll2003",
        "CoNLL-2003 (four columns)",
        (".conll",),
        read,
        write,
        options_type=ConllOptions,
        layout_type=FourColumns,
        notes_type=ConllNotes,
        by_document=True,
        one_file=True,
        is_chosen=True,
        example="Mara NNP I-NP B-person",
    )
)
