"""Models that FLAIR released: the states that FLAIR takes, from each layout of its files, and what is refused."""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from crossner_core.adaptation import released_flair
from crossner_core.adaptation.__main__ import main
from crossner_core.adaptation.released_flair import convert_flair
from crossner_core.encoders.base import WEIGHTS, vectors
from crossner_core.encoders.flair import EMBEDDING_SIZE, GAP, PADDING, UNKNOWN, Flair
from crossner_core.encoders.loading import load_encoder
from crossner_core.encoders.names import SETTINGS
from crossner_core.errors import BadInput
from crossner_core.schema import sentence_from_words

HIDDEN = 6
ITEMS = ["<unk>", "e", " ", "\n", "O", "s", "l", "ö", "𝕏", "o", ","]
SENTENCE = ["Oslo", "𝕏", ",", "Östlö", "loose"]
LAYOUTS = [(protocol, is_zip) for protocol in (2, 4, 5) for is_zip in (False, True)]


@contextmanager
def flair_module() -> Iterator[type]:
    """Let there be a module `flair.data` with a class `Dictionary`, which has FLAIR's attributes."""
    dictionary = type("Dictionary", (), {"__module__": "flair.data"})
    package, data = ModuleType("flair"), ModuleType("flair.data")
    data.Dictionary = dictionary  # type: ignore[attr-defined]
    sys.modules |= {"flair": package, "flair.data": data}
    try:
        yield dictionary
    finally:
        del sys.modules["flair"], sys.modules["flair.data"]


def weights_of(items: int, seed: int, hidden_size: int = HIDDEN) -> OrderedDict[str, Tensor]:
    """Return random weights by FLAIR's names."""
    torch.manual_seed(seed)
    parts = nn.ModuleDict(
        {
            "encoder": nn.Embedding(items, EMBEDDING_SIZE),
            "rnn": nn.LSTM(EMBEDDING_SIZE, hidden_size),
            "decoder": nn.Linear(hidden_size, items),
        }
    )
    return parts.state_dict()  # type: ignore[return-value]


def write(
    path: Path, *, onward: bool, layout: tuple[int, bool] = (4, False), items: list[str] | None = None, **changes: Any
) -> Path:
    """Write a file as FLAIR does; `changes` are of its settings, None leaves one out."""
    items = items or ITEMS
    coded = [item.encode() for item in items]
    with flair_module() as make:
        dictionary = make()
        vars(dictionary).update(
            item2idx={item: row for row, item in enumerate(coded)}, idx2item=coded, multi_label=False, add_unk=True
        )
        state = {
            "state_dict": weights_of(len(items), int(onward)), "dictionary": dictionary, "is_forward_lm": onward,
            "hidden_size": HIDDEN, "nlayers": 1, "embedding_size": EMBEDDING_SIZE, "nout": None,
            "document_delimiter": "\n", "dropout": 0.1,
        } | changes  # fmt: skip
        protocol, is_zip = layout
        torch.save(state, path, pickle_protocol=protocol, _use_new_zipfile_serialization=is_zip)
    return path


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    return (
        write(tmp_path / "news-forward-0.4.1.pt", onward=True),
        write(tmp_path / "news-backward-0.4.1.pt", onward=False),
    )


def read(encoder: Any, *sentences: list[str]) -> Tensor:
    """Return the vectors (B, L, H) of sentences of words."""
    windows = encoder.windows([sentence_from_words(words, id=str(number)) for number, words in enumerate(sentences)])
    with torch.no_grad():
        return vectors(encoder.model, encoder.collate(windows))


def states_of_flair(words: list[str], *, onward: bool) -> Tensor:
    """Return the states (L, H) that FLAIR takes for words: its text, its LSTM, its places, as by default."""
    weights, text = weights_of(len(ITEMS), int(onward)), " ".join(words)
    lstm = nn.LSTM(EMBEDDING_SIZE, HIDDEN)
    lstm.load_state_dict({name[4:]: value for name, value in weights.items() if name.startswith("rnn.")})
    rows = [ITEMS.index(c) if c in ITEMS else 0 for c in f"\n{text if onward else text[::-1]} "]
    with torch.no_grad():
        output, _ = lstm(weights["encoder.weight"][rows].unsqueeze(1))
    places, onward_place, backward_place = [], 1, len(text) + 1
    for word in words:
        onward_place += len(word)
        places.append(onward_place if onward else backward_place)
        onward_place, backward_place = onward_place + 1, backward_place - 1 - len(word)
    return output[places, 0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_converted_model_has_the_states_that_flair_takes(tmp_path: Path, layout: tuple[int, bool]) -> None:
    files = [write(tmp_path / f"{onward}.pt", onward=onward, layout=layout) for onward in (True, False)]
    assert "flair.data" not in sys.modules
    convert_flair(files[0], files[1], tmp_path / "lm")
    assert sorted(path.name for path in (tmp_path / "lm").iterdir()) == [SETTINGS, WEIGHTS]
    encoder = load_encoder(f"flair:{tmp_path / 'lm'}")
    rows = read(encoder, SENTENCE, ["Oslo"])
    for words, row in zip((SENTENCE, ["Oslo"]), rows, strict=True):
        wanted = torch.cat([states_of_flair(words, onward=onward) for onward in (True, False)], -1)
        assert torch.allclose(row[: len(words)], wanted, atol=1e-6)
    assert not rows[1, 1:].any()


def test_a_model_that_lay_on_a_gpu_is_read_without_one(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    files = []
    for onward, path in zip((True, False), pair, strict=True):
        data = write(path, onward=onward, layout=(2, False)).read_bytes()
        data = data.replace(b"ctorch\nFloatStorage", b"ctorch.cuda\nFloatStorage")
        files.append(tmp_path / f"gpu-{path.name}")
        files[-1].write_bytes(data.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"))
        assert b"cuda:0" in files[-1].read_bytes() and b"torch.cuda\nFloat" in files[-1].read_bytes()
    encoder = convert_flair(files[0], files[1], tmp_path / "lm")
    wanted = torch.cat([states_of_flair(SENTENCE, onward=onward) for onward in (True, False)], -1)
    assert torch.allclose(read(encoder, SENTENCE)[0], wanted, atol=1e-6)


def test_a_trained_model_states_and_reads_what_it_did() -> None:
    encoder = Flair.make({"characters": "Oslo", "hidden_size": 4})
    assert encoder.settings() == {"characters": "Oslo", "hidden_size": 4, "words": None}
    later = Flair.make({"characters": "Oslo", "hidden_size": 4, "after_gap": True})
    assert later.settings() == {**encoder.settings(), "after_gap": True}
    assert not torch.allclose(read(encoder, ["Oslo"]), read(later, ["Oslo"]))


def test_characters_keep_their_predictions_and_padding_is_never_predicted(
    tmp_path: Path, pair: tuple[Path, Path]
) -> None:
    made = convert_flair(*pair, tmp_path / "lm")
    assert made.chosen.characters == "eOslö𝕏o,"
    weights, scores = weights_of(len(ITEMS), 1), made.model.onward.scores
    rows = [0, ITEMS.index("\n"), ITEMS.index(" "), *(ITEMS.index(c) for c in made.chosen.characters)]
    assert torch.equal(scores.weight[UNKNOWN:], weights["decoder.weight"][rows])
    assert torch.equal(scores.bias[UNKNOWN:], weights["decoder.bias"][rows])
    assert float(scores(torch.randn(1, HIDDEN)).softmax(-1)[0, PADDING]) == 0


def test_a_model_without_a_space_reads_it_as_unknown(tmp_path: Path) -> None:
    items = [item for item in ITEMS if item != " "]
    files = [write(tmp_path / f"{onward}.pt", onward=onward, items=items) for onward in (True, False)]
    characters = convert_flair(files[0], files[1], tmp_path / "lm").model.onward.characters.weight
    assert torch.equal(characters[GAP], characters[UNKNOWN])


def test_the_command_makes_an_encoder(
    tmp_path: Path, pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["convert-flair", "--forward", str(pair[0]), "--backward", str(pair[1]), "--out", str(tmp_path / "lm")]
    assert main(given) == 0
    assert f"Encoder: {tmp_path / 'lm'} (8 characters, states of 2 x {HIDDEN})" in capsys.readouterr().out
    assert main(given) == 1
    assert "lm exists; choose another folder" in capsys.readouterr().err
    assert main(given[:3] + given[5:]) == 2
    assert "--backward" in capsys.readouterr().err


class Runs:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("where", ["state", "dictionary"])
def test_a_file_with_anything_foreign_is_refused_and_does_not_run(
    tmp_path: Path, pair: tuple[Path, Path], layout: tuple[int, bool], where: str
) -> None:
    bad, runs = tmp_path / "bad.pt", Runs(tmp_path / "ran")
    changes: Mapping[str, Any] = {"extra": runs} if where == "state" else {"dictionary": runs}
    write(bad, onward=True, layout=layout, **changes)
    with pytest.raises(
        BadInput, match=r"bad\.pt holds \w+\.mkdir, which could run code.*allowed are flair\.data\.Dict"
    ):
        convert_flair(bad, pair[1], tmp_path / "lm")
    assert not (tmp_path / "ran").exists() and not (tmp_path / "lm").exists()


def test_pytorch_refuses_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = write(tmp_path / "bad.pt", onward=True, extra=Runs(tmp_path / "ran"))
    monkeypatch.setattr(released_flair, "ALLOWED", (*released_flair.ALLOWED, f"{os.name}.mkdir", "posix.mkdir"))
    with pytest.raises(
        BadInput,
        match=r"bad\.pt is damaged, or no file that PyTorch wrote \(Trying to load unsupported GLOBAL \w+\.mkdir whose",
    ):
        convert_flair(bad, bad, tmp_path / "lm")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"onward": False}, "bad.pt reads backward, so it is no file for --forward"),
        ({"nout": 32}, "a model with nout 32; only nlayers 1, nout None"),
        ({"nlayers": 2, "recurrent_type": "GRU"}, "a model with nlayers 2, recurrent_type 'gru'"),
        ({"embedding_size": 50}, "a model with embedding_size 50"),
        ({"document_delimiter": "<s>"}, "begins a text with '<s>'"),
        ({"hidden_size": 8}, r"states of 8: decoder.weight \(11, 6\), rnn.bias_hh_l0 \(24,\)"),
        ({"hidden_size": "8"}, "states '8' as hidden_size"),
        ({"state_dict": {}}, r"decoder.bias missing, .* are read\. Use another model"),
        ({"state_dict": 5}, "decoder.bias missing"),
        ({"dictionary": {}}, "its dictionary is no flair.data.Dictionary"),
        ({"items": ["<unk>", *"abc"]}, "tell different characters apart"),
        ({"hidden_size": 8, "state_dict": weights_of(len(ITEMS), 1, 8)}, "has states of 8, .* of 6; give two of one"),
    ],
)
def test_a_model_that_the_encoder_cannot_be_is_refused(
    tmp_path: Path, pair: tuple[Path, Path], changes: dict[str, Any], reason: str
) -> None:
    bad = write(tmp_path / "bad.pt", **{"onward": True, **changes})
    with pytest.raises(BadInput, match=reason):
        convert_flair(bad, pair[1], tmp_path / "lm")


def test_what_is_no_file_of_pytorch_or_no_whole_one_is_refused(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    bad, whole = tmp_path / "bad.pt", pair[0].read_bytes()
    zipped = write(tmp_path / "zipped.pt", onward=True, layout=(4, True)).read_bytes()
    for data in (
        b"",
        b"news",
        whole[:200],
        whole[:-100],
        zipped[:-100],
        zipped[:64],
        b"\x80\x04N." * 5,
        b"\x80\x04\x93.",
    ):
        bad.write_bytes(data)
        with pytest.raises(BadInput, match=r"bad\.pt is damaged, or no file that PyTorch wrote"):
            convert_flair(bad, pair[1], tmp_path / "lm")
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("archive/data.pkl", b"0" * 1000)
    with pytest.raises(BadInput, match=r"archive/data.pkl is compressed"):
        convert_flair(bad, pair[1], tmp_path / "lm")
    torch.save({"state_dict": {}}, bad)
    with pytest.raises(BadInput, match="no character model of FLAIR's: it lacks dictionary, is_forward_lm"):
        convert_flair(bad, pair[1], tmp_path / "lm")
    with pytest.raises(BadInput, match=r"none\.pt cannot be read: No such file"):
        convert_flair(tmp_path / "none.pt", pair[1], tmp_path / "lm")


def test_a_converted_model_goes_on_in_training(tmp_path: Path, pair: tuple[Path, Path]) -> None:
    convert_flair(*pair, tmp_path / "lm")
    text, held_out, out = (tmp_path / name for name in ("text.txt", "held_out.txt", "more"))
    for path in (text, held_out):
        path.write_text("Oslo loose , Oslo\n" * 60, encoding="utf-8")
    given = ["--encoder", str(tmp_path / "lm"), "--text", str(text), "--held-out", str(held_out), "--out", str(out)]
    assert main(["character-models", *given, "--device", "cpu", "--row-length", "40", "--batch-size", "8"]) == 0
    assert json.loads((out / SETTINGS).read_text(encoding="utf-8"))["settings"]["after_gap"] is True
