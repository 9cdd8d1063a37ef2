"""Hugging Face datasets as Parquet: a row a sentence, words and tags, whose names are in the file's features.

The features are JSON under the key `huggingface` of the schema's metadata; tags are `ClassLabel` numbers or strings.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import PurePosixPath
from typing import Any

from crossner_core.errors import BadInput, WorkbenchError
from crossner_core.formats.base import (
    Format,
    InputFile,
    Layout,
    NamedFile,
    Parsed,
    Problem,
    ReadOptions,
    Record,
    register,
)
from crossner_core.formats.source import clip, opened, refused
from crossner_core.schema import Sentence, SentenceLayout, Span, Token, check_content, sentence_from_words
from crossner_core.tags import detect_scheme, spans_from_tags, tags_from_spans

_WORDS, _TAGS = ("tokens", "words"), ("ner_tags", "tags", "ner", "labels", "fine_ner_tags")
_KEY = b"huggingface"
_BATCH = 2_000


@dataclass(frozen=True)
class ParquetOptions(ReadOptions):
    """How to read Parquet."""

    names: tuple[str, ...] = field(
        default=(), metadata={"doc": "Names of tags that are bare numbers, in order, such as O B-person I-person."}
    )
    words_column: str = field(default="", metadata={"doc": "Column of the words. Default: tokens or words."})
    tags_column: str = field(default="", metadata={"doc": "Column of the tags. Default: ner_tags or tags."})


@dataclass(frozen=True)
class ParquetLayout(Layout):
    """The columns that words and tags came from."""

    words_column: str = "tokens"
    tags_column: str = "ner_tags"


def read(files: Sequence[InputFile], options: ParquetOptions) -> Iterator[Parsed]:
    """Read each file's rows, some at a time; the tags of all of them, which are read before, tell the scheme."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, data in files:
        with opened(data) as file, opened(data, counted=False) as before:
            try:
                table, ahead = pq.ParquetFile(file), pq.ParquetFile(before)
                schema = table.schema_arrow
            except (pa.ArrowException, OSError) as error:
                raise refused(name, 1, f"it is no Parquet file: {error}") from error
            words = _column(schema.names, options.words_column, _WORDS, name, "words")
            tags = _column(schema.names, options.tags_column, _TAGS, name, "tags") if _has_tags(schema, options) else ""
            names = _names(schema, tags, options, name) if tags else None
            wanted = [column for column in (words, tags, "id", "document", "text") if column and column in schema.names]
            scheme = detect_scheme(_sequences(ahead, tags, names)) if tags else "IOB2"
            others = [column for column in schema.names if column not in wanted]
            losses = Counter({f"columns not read ({', '.join(others)})": len(others)} if others else {})
            layout = ParquetLayout(type_map=dict(options.type_map), words_column=words, tags_column=tags or "ner_tags")
            stem, number = options.id_prefix or PurePosixPath(name).stem, 0
            for batch in table.iter_batches(_BATCH, columns=wanted, use_threads=False):
                problems, records = list[Problem](), list[Record]()
                for row in batch.to_pylist():
                    number += 1
                    try:
                        own = _tags(row[tags], names, tags) if tags and row[tags] is not None else None
                        records.append(_record(row, own, words, scheme, f"{stem}-{number}", name, options))
                    except WorkbenchError as error:
                        problems.append(Problem(name, number, f"row {number}: {error}"))
                yield Parsed(name, "parquet", tuple(records), tuple(problems), layout, more=True)
            yield Parsed(name, "parquet", (), (), layout, losses)


def _sequences(table: Any, tags: str, names: Sequence[str] | None) -> Iterator[list[str]]:
    """Yield the tags of each row that has them and can be read."""
    for batch in table.iter_batches(_BATCH, columns=[tags], use_threads=False):
        for row in batch.to_pylist():
            if row[tags] is not None:
                with suppress(BadInput):  # reported when the row is read
                    yield _tags(row[tags], names, tags)


def _column(present: Sequence[str], chosen: str, usual: Sequence[str], name: str, what: str) -> str:
    known = (
        chosen
        if chosen in present
        else ""
        if chosen
        else next((column_name for column_name in usual if column_name in present), "")
    )
    if not known:
        raise refused(
            name, 1, f"no column holds {what}: {chosen or ' or '.join(usual)} is not among {', '.join(present)}; name "
            f"it by the option {what}_column",
        )  # fmt: skip
    return known


def _has_tags(schema: Any, options: ParquetOptions) -> bool:
    return bool(options.tags_column) or any(column_name in schema.names for column_name in _TAGS)


def _names(schema: Any, column: str, options: ParquetOptions, name: str) -> list[str] | None:
    """Return the names of tags that are numbers, None for tags that are texts; raise BadInput for numbers without."""
    import pyarrow as pa

    kind = schema.field(column).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list:
        raise refused(name, 1, f"the column {column} holds {kind}, and a list of tags is expected")
    if not pa.types.is_integer(kind.value_type):
        return None
    if options.names:
        return list(options.names)
    known = _declared((schema.metadata or {}).get(_KEY), column)
    if known is None:
        raise refused(
            name, 1, f"the tags in {column} are numbers, and the file does not name them; give the names in order by "
            "the option names, such as O B-person I-person",
        )  # fmt: skip
    return known


def _declared(metadata: bytes | None, column: str) -> list[str] | None:
    """Return the names that a file's features give the tags of a column."""
    try:
        features = json.loads(metadata or b"{}")["info"]["features"][column]
        inner = features.get("feature", features) if isinstance(features, dict) else features[0]
        names = inner["names"]
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    names = [names[key] for key in sorted(names, key=int)] if isinstance(names, dict) else names
    return names if isinstance(names, list) and all(isinstance(column_name, str) for column_name in names) else None


def _tags(values: Any, names: Sequence[str] | None, column: str) -> list[str]:
    if not isinstance(values, list) or any(value is None for value in values):
        raise BadInput(f"{column} is {clip(json.dumps(values, default=str))}, not a list without gaps.")
    if names is None:
        return [str(value) for value in values]
    if wrong := next((value for value in values if not 0 <= value < len(names)), None):
        raise BadInput(f"{column} holds {wrong}; there are {len(names)} names, for 0 to {len(names) - 1}.")
    return [names[value] for value in values]


def _record(
    row: Mapping[str, Any], tags: list[str] | None, column: str, scheme: str, usual: str, name: str,
    options: ParquetOptions,
) -> Record:  # fmt: skip
    words = row.get(column)
    if not isinstance(words, list) or not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise BadInput(f"{column} is {clip(json.dumps(words, default=str))}, not a list of words.")
    if len(words) > options.max_tokens:
        raise BadInput(f"a sentence of {len(words):,} tokens; at most {options.max_tokens:,} are read.")
    if tags is not None and len(tags) != len(words):
        raise BadInput(f"{len(tags)} tags for {len(words)} words; each word has one.")
    id, document = row.get("id"), row.get("document")
    sentence = _sentence(words, row.get("text"), str(id) if id not in (None, "") else usual)
    document = document if isinstance(document, str) and document else name
    layout = SentenceLayout("parquet", {})
    made = Sentence(sentence.id, sentence.text, sentence.tokens, document=document, layout=layout)
    check_content(made)
    if tags is None:
        return Record(made)
    spans = []
    for span in spans_from_tags(tags, scheme, strict=not options.lenient):
        if ours := options.our_type(span.type):
            spans.append(Span(span.start, span.end, ours))
    return Record(made, tuple(spans))


def _sentence(words: Sequence[str], text: Any, id: str) -> Sentence:
    """Return a sentence whose words are found in its text, or joined by blanks."""
    tokens, end = list[Token](), 0
    for word in words if isinstance(text, str) else ():
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            break
        end = start + len(word)
        tokens.append(Token(start, end))
    if tokens and len(tokens) == len(words):
        return Sentence(id, text, tuple(tokens))
    return sentence_from_words(words, id=id)


def write(documents: Sequence[Parsed], losses: Counter[str]) -> Iterator[NamedFile]:
    """Write the sentences of all documents as rows: id, document, text, words, and tags as ClassLabel numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for document in documents:
        layout = document.layout if isinstance(document.layout, ParquetLayout) else ParquetLayout()
        records = document.sentences
        outer = layout.outer_type
        types = sorted({outer(span.type) for record in records for span in record.spans or ()})
        names = ["O", *(f"{part}-{type}" for type in types for part in "BI")]
        numbers = {tag: number for number, tag in enumerate(names)}
        losses["links"] += sum(len(record.sentence.links) for record in records)
        tags = [
            [numbers[tag] for tag in tags_from_spans(spans, len(record.sentence.tokens))]
            if record.spans is not None
            else None
            for record in records
            for spans in [
                [
                    Span(column_name.start, column_name.end, outer(column_name.type))
                    for column_name in record.spans or ()
                ]
            ]
        ]
        text, words = pa.string(), pa.list_(pa.string())
        columns = {
            "id": pa.array([record.sentence.id for record in records], text),
            "document": pa.array([record.sentence.document or document.name for record in records], text),
            "text": pa.array([record.sentence.text for record in records], text),
            layout.words_column: pa.array([list(record.sentence.words) for record in records], words),
            layout.tags_column: pa.array(tags, pa.list_(pa.int64())),
        }
        table = pa.table(columns).replace_schema_metadata({_KEY: json.dumps(_features(layout, names)).encode()})
        buffer = BytesIO()
        pq.write_table(table, buffer)
        yield (document.name if document.name.endswith(".parquet") else f"{document.name}.parquet"), buffer.getvalue()


def _features(layout: ParquetLayout, names: Sequence[str]) -> dict[str, Any]:
    plain = {"dtype": "string", "_type": "Value"}
    return {
        "info": {
            "features": {
                "id": plain,
                "document": plain,
                "text": plain,
                layout.words_column: {"feature": plain, "_type": "Sequence"},
                layout.tags_column: {"feature": {"names": list(names), "_type": "ClassLabel"}, "_type": "Sequence"},
            }
        }
    }


register(
    Format(
        "parquet",
        "Parquet (Hugging Face datasets)",
        (".parquet",),
        read,
        write,
        options_type=ParquetOptions,
        layout_type=ParquetLayout,
        example="tokens: list<string>, ner_tags: list<ClassLabel>",
    )
)
