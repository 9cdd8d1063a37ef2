"""Exported models beside the tagger they came from: sentences a second, F1, and spans that differ, in one run.

PyTorch, ONNX in single precision and in int8, the spaCy package and (of a plain tagger) the Hugging Face folder read
the test sentences by turns, and the best of `--rounds` counts. The first three get `--threads` threads, the others
what their library takes. spaCy reads texts, and is compared with PyTorch on the tokens of those. The bars: no span
differs in single precision, int8 loses at most 0.5 F1, and reads at least 1.5 times as many sentences a second as
PyTorch.

    python -m benchmarks.exported --data ../shared/data/ner [--domain music] [--tagger FOLDER]

Without `--tagger` (the folder of a run) one is trained first, for `--epochs` epochs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import torch

from benchmarks.train_bars import machine
from crossner_core.evaluation.scores import score_tags
from crossner_core.experiments.corpora import Corpus, read_corpus
from crossner_core.exports.base import EXPORTS, About, export_tagger
from crossner_core.exports.decoder import Tagger
from crossner_core.schema import LabelledSentence, Sentence, Span
from crossner_core.tags import tags_from_spans
from crossner_core.tokenize import tokenize
from crossner_core.training.loop import train
from crossner_core.training.predictor import Predictor, load_tagger
from crossner_core.training.recipe import Recipe

SPEED_BAR, F1_BAR = 1.5, 0.5
ON_TEXT = "PyTorch, text"
Spans = list[tuple[Span, ...]]


def main() -> int:
    """Measure, print, and return 0 if all bars are met."""
    options = _options()
    torch.set_num_threads(options.threads)
    corpus = read_corpus(options.domain, options.data)
    with tempfile.TemporaryDirectory() as name:
        predictor = _tagger(options, corpus, Path(name))
        about, folder = About("benchmark", f"data set {corpus.id}"), Path(name) / "onnx"
        export_tagger(predictor, folder, "onnx", about, int8=True)
        test = corpus.test[: options.sentences]
        texts = [replace(item.sentence, tokens=tokenize(item.sentence.text)) for item in test]
        ways = {
            "PyTorch": lambda: predictor.predict_spans([item.sentence for item in test]),
            "ONNX": _reader(Tagger.load(folder, threads=options.threads), test),
            "ONNX int8": _reader(Tagger.load(folder, int8=True, threads=options.threads), test),
            ON_TEXT: lambda: predictor.predict_spans(texts),
            "spaCy": _spacy_reader(predictor, about, Path(name), texts),
        }
        if not EXPORTS.one("huggingface").refusal(predictor.recipe, predictor.encoder.kind):
            ways["Hugging Face"] = _huggingface_reader(predictor, about, Path(name), test)
        seconds, spans = _timed(ways, options.rounds)
    rows = {}
    for way, found in spans.items():
        on_text = way in (ON_TEXT, "spaCy")
        own = spans[ON_TEXT if on_text else "PyTorch"]
        differ = sum(len(set(ours) ^ set(theirs)) for ours, theirs in zip(own, found, strict=True))
        f1 = float("nan") if on_text else 100 * _f1(test, found)  # the gold is of the corpus's own words
        rows[way] = {"per_second": len(test) / seconds[way], "f1": f1, "differ": differ}
    place = {**machine(), "threads": options.threads, "load": round(os.getloadavg()[0], 1)}
    print(f"{place}: {len(test)} test sentences of {corpus.id}")
    print(f"{predictor.recipe.architecture}, {sum(map(len, spans['PyTorch']))} spans by PyTorch\n")
    print("| | sentences/s | × PyTorch | F1 | spans that differ |\n|---|---|---|---|---|")
    for way, row in rows.items():
        faster = row["per_second"] / rows["PyTorch"]["per_second"]
        print(f"| {way} | {row['per_second']:.1f} | {faster:.2f} | {row['f1']:.2f} | {row['differ']} |")
    bars = {
        "no span differs in single precision": not any(
            row["differ"] for way, row in rows.items() if way != "ONNX int8"
        ),
        f"int8 within {F1_BAR} F1": abs(rows["ONNX int8"]["f1"] - rows["PyTorch"]["f1"]) <= F1_BAR,
        f"int8 at least {SPEED_BAR} × PyTorch": rows["ONNX int8"]["per_second"]
        >= SPEED_BAR * rows["PyTorch"]["per_second"],
    }
    print("\n" + "\n".join(f"{'met' if met else 'MISSED'}: {bar}" for bar, met in bars.items()))
    return 0 if options.no_bars or all(bars.values()) else 1


def _tagger(options: argparse.Namespace, corpus: Corpus, folder: Path) -> Predictor:
    if options.tagger is None:
        recipe = Recipe.from_dict({"max_epochs": options.epochs, "device": "cpu", **json.loads(options.recipe)})
        for event in train(recipe, corpus.data(), checkpoint_dir=folder / "run"):
            if event.message:
                print(event.message, file=sys.stderr)
    return load_tagger(options.tagger or folder / "run", device="cpu", precision="fp32")


def _reader(tagger: Tagger, test: Sequence[LabelledSentence]) -> Callable[[], Spans]:
    words = [item.sentence.words for item in test]
    return lambda: [tuple(Span(s.start, s.end, s.type) for s in spans) for spans in tagger.tag(words)]


def _spacy_reader(predictor: Predictor, about: About, place: Path, texts: Sequence[Sentence]) -> Callable[[], Spans]:
    import spacy

    export_tagger(predictor, place / "spacy", "spacy", about)
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    subprocess.run([*command, "--target", str(place / "site"), str(place / "spacy")], check=True, capture_output=True)
    sys.path.insert(0, str(place / "site"))
    import_module("en_benchmark.component")  # spaCy looked for installed packages when it was imported
    nlp = spacy.load("en_benchmark")
    return lambda: [
        tuple(_in_words(sentence, ent.start_char, ent.end_char, ent.label_) for ent in doc.ents)
        for sentence, doc in zip(texts, nlp.pipe(sentence.text for sentence in texts), strict=True)
    ]


def _huggingface_reader(
    predictor: Predictor, about: About, place: Path, test: Sequence[LabelledSentence]
) -> Callable[[], Spans]:
    from transformers import pipeline

    folder = str(place / "huggingface")
    export_tagger(predictor, Path(folder), "huggingface", about)
    tagger = pipeline("token-classification", folder, trust_remote_code=True, aggregation_strategy="first")
    words = [list(item.sentence.words) for item in test]
    return lambda: [
        tuple(Span(each["word_start"], each["word_end"], each["entity_group"]) for each in spans)
        for spans in tagger(words, is_split_into_words=True, batch_size=16)
    ]


def _in_words(sentence: Sentence, start: int, end: int, type: str) -> Span:
    starts, ends = zip(*((token.start, token.end) for token in sentence.tokens), strict=True)
    return Span(starts.index(start), ends.index(end) + 1, type)


def _timed(ways: dict[str, Callable[[], Spans]], rounds: int) -> tuple[dict[str, float], dict[str, Spans]]:
    """Return each way's best seconds, and its spans; the ways take turns, so that a busy moment strikes all."""
    best, spans = dict.fromkeys(ways, float("inf")), {}
    for _ in range(rounds):
        for way, read in ways.items():
            begin = time.perf_counter()
            spans[way] = read()
            best[way] = min(best[way], time.perf_counter() - begin)
    return best, spans


def _f1(test: Sequence[LabelledSentence], found: Spans) -> float:
    gold = [tags_from_spans(item.spans, len(item.sentence.tokens)) for item in test]
    tags = [tags_from_spans(spans, len(own)) for spans, own in zip(found, gold, strict=True)]
    return score_tags(gold, tags).f1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpora")
    parser.add_argument("--domain", default="music", help="corpus to train and measure on")
    parser.add_argument("--tagger", type=Path, help="folder of a run, instead of training one")
    parser.add_argument("--recipe", default="{}", help="with training: fields to change, as JSON")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--sentences", type=int, help="only the first of the test sentences")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-bars", action="store_true", help="return 0 even if a bar is missed")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
