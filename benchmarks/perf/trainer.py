"""The peer of a run: transformers' Trainer with the default recipe's numbers, on a CPU; prints its test F1."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

from crossner_core.encoders.loading import load_encoder
from crossner_core.evaluation.scores import score_tags
from crossner_core.experiments.corpora import read_corpus
from crossner_core.models.heads import head_tags
from crossner_core.schema import LabelledSentence
from crossner_core.tags import tags_from_spans
from crossner_core.training.recipe import Recipe


def main(data: Path) -> None:
    """Train on music, score dev as often as the recipe does, and test at the end with the best weights."""
    recipe, corpus = Recipe(), read_corpus("music", data)
    set_seed(recipe.seed)
    tags = head_tags(corpus.types)
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder) / "body"
        load_encoder(recipe.encoder).save(body)
        tokenizer = AutoTokenizer.from_pretrained(body)
        parts = {name: _encoded(getattr(corpus, name), tokenizer, tags) for name in ("train", "dev", "test")}
        steps = -(-len(parts["train"]) // recipe.batch_size)
        arguments = TrainingArguments(
            output_dir=str(Path(folder) / "out"),
            num_train_epochs=recipe.max_epochs,
            per_device_train_batch_size=recipe.batch_size,
            per_device_eval_batch_size=32,
            learning_rate=recipe.learning_rate,
            weight_decay=recipe.weight_decay,
            warmup_steps=int(recipe.warmup_share * recipe.max_epochs * steps),
            max_grad_norm=recipe.clip_norm,
            eval_strategy="steps",
            eval_steps=recipe.dev_every * steps,
            save_strategy="steps",
            save_steps=recipe.dev_every * steps,
            save_total_limit=1,
            load_best_model_at_end=True,
            metric_for_best_model="f1",
            report_to="none",
            use_cpu=True,
            seed=recipe.seed,
        )
        trainer = Trainer(
            model=AutoModelForTokenClassification.from_pretrained(body, num_labels=len(tags)),
            args=arguments,
            train_dataset=parts["train"],
            eval_dataset=parts["dev"],
            data_collator=DataCollatorForTokenClassification(tokenizer),
            compute_metrics=lambda answer: {"f1": _f1(answer.predictions, answer.label_ids, tags, corpus.types)},
        )
        trainer.train()
        answer = trainer.predict(parts["test"])
    print(json.dumps({"test_f1": 100 * _f1(answer.predictions, answer.label_ids, tags, corpus.types)}))


def _encoded(items: tuple[LabelledSentence, ...], tokenizer: Any, tags: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return subwords with the tag of each word's first one, -100 elsewhere."""
    index, rows = {tag: number for number, tag in enumerate(tags)}, []
    for item in items:
        words = list(item.sentence.words)
        encoded = tokenizer(words, is_split_into_words=True, truncation=True, max_length=256)
        own, before, labels = tags_from_spans(item.spans, len(words)), None, []
        for word in encoded.word_ids():
            labels.append(-100 if word is None or word == before else index[own[word]])
            before = word
        rows.append({**encoded, "labels": labels})
    return rows


def _f1(scores: Any, labels: Any, tags: tuple[str, ...], types: tuple[str, ...]) -> float:
    chosen = torch.as_tensor(scores).argmax(-1)
    gold, predicted = [], []
    for own, known in zip(chosen.tolist(), labels.tolist(), strict=True):
        pairs = [(tags[label], tags[tag]) for tag, label in zip(own, known, strict=True) if label >= 0]
        gold.append([pair[0] for pair in pairs])
        predicted.append([pair[1] for pair in pairs])
    return score_tags(gold, predicted, types).f1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
