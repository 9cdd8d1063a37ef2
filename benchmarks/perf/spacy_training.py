"""The peer without a transformer: spaCy's entity recognizer, trained on the same sentences; prints its test F1."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

import spacy
from spacy.tokens import Doc
from spacy.training import Example
from spacy.util import fix_random_seed, minibatch

from crossner_core.evaluation.scores import score_tags
from crossner_core.experiments.corpora import read_corpus
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans

EPOCHS = 30


def main(data: Path) -> None:
    """Train for EPOCHS epochs with spaCy's defaults and score test."""
    corpus = read_corpus("music", data)
    fix_random_seed(555)
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples = [_example(nlp, item) for item in corpus.train]
    optimizer = nlp.initialize(lambda: examples)
    shuffled = random.Random(555)
    for _ in range(EPOCHS):
        shuffled.shuffle(examples)
        for batch in minibatch(examples, 8):
            nlp.update(batch, sgd=optimizer, drop=0.2)
    found = [_tags(doc) for doc in nlp.pipe(_doc(nlp, item) for item in corpus.test)]
    gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in corpus.test]
    print(json.dumps({"test_f1": 100 * score_tags(gold, found, corpus.types).f1}))


def _doc(nlp: spacy.language.Language, item: LabelledSentence) -> Doc:
    return Doc(nlp.vocab, words=list(item.sentence.words))


def _example(nlp: spacy.language.Language, item: LabelledSentence) -> Example:
    tags = tags_from_spans(item.spans, len(item.sentence.tokens))
    return Example.from_dict(_doc(nlp, item), {"entities": [_biluo(tag, after) for tag, after in _pairs(tags)]})


def _pairs(tags: list[str]) -> list[tuple[str, str]]:
    return list(zip(tags, [*tags[1:], "O"], strict=True))


def _biluo(tag: str, after: str) -> str:
    """Return a tag of IOB2 in spaCy's scheme, which marks last and single tokens too."""
    if tag == "O":
        return tag
    goes_on = after == f"I-{tag[2:]}"
    return tag if goes_on else f"{'U' if tag[0] == 'B' else 'L'}-{tag[2:]}"


def _tags(doc: Doc) -> list[str]:
    return [f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O" for token in doc]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
