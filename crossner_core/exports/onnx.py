"""A graph for ONNX Runtime, in single precision and int8, and beside it a decoder that needs no PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.encoders.names import FLAIR, TRANSFORMER, WORDS
from crossner_core.exports.base import GRAPHS, NO_GRAPH, READABLE, About, Export, register

if TYPE_CHECKING:
    from crossner_core.training.predictor import Predictor


def write(predictor: Predictor, folder: Path, about: About, int8: bool) -> None:
    """Write model.onnx (and model_int8.onnx), config.json, tokenizer.json or words.json, decoder.py and README.md."""
    from crossner_core.exports._card import card
    from crossner_core.exports._graph import write_model
    from crossner_core.exports._writing import DECODER

    write_model(predictor, folder, about, both=int8)
    (folder / DECODER.name).write_bytes(DECODER.read_bytes())
    reads, needs = _READS[predictor.encoder.kind]
    use = _USE.format(reads=reads, needs=needs, int8=_INT8 if int8 else "")
    (folder / "README.md").write_text(card(predictor, about, use), "utf-8")


_READS = {
    TRANSFORMER: ("subwords", "onnxruntime tokenizers numpy"),
    WORDS: ("words", "onnxruntime numpy"),
    FLAIR: ("characters", "onnxruntime numpy"),
}
_INT8 = """
`model_int8.onnx` holds the weights in int8: `Tagger.load(FOLDER, int8=True)`. Its scales depend on the sentences of a
batch; `batch_size=1` makes each sentence independent of the others.
"""
_USE = """\
`model.onnx` turns {reads} into scores; `decoder.py` does the rest: it splits text into words, cuts long sentences into
windows, finds the best valid tags, and calibrates the spans' scores. It needs Python 3.11 or later and

```sh
pip install {needs}
python decoder.py "Ada Brook sang with The Tin Foxes in Leeds."
```

```python
from decoder import Tagger            # with this folder on the path

tagger = Tagger.load(FOLDER)
tagger.read("Ada Brook sang in Leeds.")              # spans in characters
tagger.tag([["Ada", "Brook", "sang", "in", "Leeds", "."]])   # spans in words
```
{int8}"""

register(
    Export(
        id="onnx",
        title="ONNX (model and decoder, without PyTorch)",
        takes=GRAPHS,
        write=write,
        refused=NO_GRAPH,
        encoders=READABLE,
    )
)
