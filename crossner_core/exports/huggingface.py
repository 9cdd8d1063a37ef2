"""A folder for Hugging Face transformers: weights, tokenizer, card, and a pipeline with this tagger's decoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossner_core.errors import InvalidConfig
from crossner_core.exports.base import About, Export, register

if TYPE_CHECKING:
    from crossner_core.encoders.windows import Window
    from crossner_core.training.predictor import Predictor

TASK = "token-classification"


def write(predictor: Predictor, folder: Path, about: About, int8: bool) -> None:
    """Write config.json, model.safetensors, tokenizer files, pipeline.py, decoder.py and README.md."""
    from transformers import AutoTokenizer

    from crossner_core.encoders.transformer import quiet
    from crossner_core.exports._card import card
    from crossner_core.exports._writing import DECODER, check_scores, check_windows, settings_of, subwords_of
    from crossner_core.exports.decoder import Decoder

    settings, tokenizer = settings_of(predictor, about), subwords_of(predictor)
    model = _model(predictor, settings["tags"])
    check_scores(predictor, lambda windows: _scores(model, windows), "model for transformers")
    model.config.crossner = settings
    model.config.custom_pipelines = {
        TASK: {"impl": "pipeline.SpanPipeline", "pt": ["AutoModelForTokenClassification"], "type": "text"}
    }
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        _state_length(folder / "tokenizer_config.json", settings["max_length"])
        read = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    check_windows(predictor, Decoder(settings), read.backend_tokenizer)
    (folder / DECODER.name).write_bytes(DECODER.read_bytes())
    (folder / "pipeline.py").write_bytes(DECODER.with_name("_pipeline.py").read_bytes())
    (folder / "README.md").write_text(card(predictor, about, _USE), "utf-8")


def _model(predictor: Predictor, tags: list[str]) -> Any:
    """Return the encoder with the head on it as the library's own model; raise InvalidConfig if it has another head."""
    import torch
    from transformers import AutoModelForTokenClassification

    from crossner_core.encoders.transformer import quiet

    body, name = predictor.model.encoder, predictor.encoder.name
    config = type(body.config).from_dict(body.config.to_dict())
    config.id2label, config.label2id = dict(enumerate(tags)), {tag: index for index, tag in enumerate(tags)}
    try:
        with quiet():
            model = AutoModelForTokenClassification.from_config(config, dtype=torch.float32)
    except ValueError as error:
        raise InvalidConfig(
            f"Encoder {name!r} ({config.model_type}) has no token classification in transformers. Export to onnx."
        ) from error
    within = f"{model.base_model_prefix}."
    own = {key: value for key, value in model.state_dict().items() if not key.startswith(within)}
    if (
        set(own) != {"classifier.weight", "classifier.bias"}
        or own["classifier.weight"].shape[1] != body.config.hidden_size
    ):
        raise InvalidConfig(
            f"Encoder {name!r} ({config.model_type}): token classification in transformers puts more than a linear "
            f"layer on it ({', '.join(sorted(own))}), which this tagger does not have. Export to onnx."
        )
    # The plain tagger's head, or that of a label-aware one whose label parts are off.
    head: Any = getattr(predictor.model, "predictor", predictor.model).head
    weights = {f"{within}{key}": value.detach().cpu() for key, value in body.state_dict().items()}
    weights |= {
        f"classifier.{key}": value.detach().cpu()[: len(tags)].contiguous() for key, value in head.state_dict().items()
    }
    loaded = model.load_state_dict(weights, strict=False)
    if lacking := [key for key in loaded.missing_keys if ".pooler." not in key] + loaded.unexpected_keys:
        raise InvalidConfig(
            f"Encoder {name!r} ({config.model_type}) has other weights for token classification in transformers: "
            f"{', '.join(sorted(lacking)[:3])}. Export to onnx."
        )
    return model.eval()


def _scores(model: Any, windows: list[Window]) -> Any:
    """Return the model's scores of the windows' tokens, padded: (B, W, A)."""
    import torch

    rows = []
    for window in windows:
        ids = torch.tensor([window.input_ids])
        rows.append(model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, list(window.positions)])
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def _state_length(path: Path, max_length: int) -> None:
    """State the tagger's longest window as the tokenizer's: the library's own pipeline cuts texts there."""
    values = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**values, "model_max_length": max_length}, ensure_ascii=False, indent=2), "utf-8")


_USE = """\
```python
from transformers import pipeline

tagger = pipeline("token-classification", model=FOLDER, trust_remote_code=True, aggregation_strategy="first")
tagger("Ada Brook sang with The Tin Foxes in Leeds.")
tagger([["Ada", "Brook", "sang", "in", "Leeds", "."]], is_split_into_words=True)
```

`trust_remote_code=True` lets the library run `pipeline.py` and `decoder.py` of this folder (PyTorch and numpy, a few
hundred lines): its own pipeline splits words further (`O'Brien` into three), may give tags that IOB2 does not allow,
and cuts long texts off, so that some entities differ. Without that code the task is called `"ner"`:
`pipeline("ner", model=FOLDER, aggregation_strategy="first")`; its scores are not calibrated. The weights alone are a
model for `AutoModelForTokenClassification`, whose scores count at the first subword of each word.
"""

register(
    Export(
        id="huggingface",
        title="Hugging Face (AutoModelForTokenClassification)",
        takes="the plain tagger on a transformer (architecture tagger, or label_aware without its label parts)",
        write=write,
        has_int8=False,
        refused={
            "bartner": "it writes entities by a decoder, which AutoModelForTokenClassification does not have.",
            "bilstm_crf": "its BiLSTM and its transitions between tags are no part of AutoModelForTokenClassification.",
            "coach": "its BiLSTM, and the types that it chooses for whole spans, are no part of "
            "AutoModelForTokenClassification.",
            "crf": "its transitions between tags are no part of AutoModelForTokenClassification.",
            "label_aware": "it reads the tags before each token, which AutoModelForTokenClassification does not.",
            "multi_cell": "its LSTM and its transitions between tags are no part of AutoModelForTokenClassification.",
            "type_aware": "it compares directions (a cosine), and no linear layer gives the same scores.",
            "type_label_aware": "it reads the tags before each token, and compares directions (a cosine).",
        },
    )
)
