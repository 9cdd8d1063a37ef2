"""A package for spaCy: `pip install FOLDER`, then `spacy.load(NAME)`; its component runs on ONNX Runtime."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from crossner_core.encoders.names import TRANSFORMER
from crossner_core.errors import InvalidConfig
from crossner_core.exports.base import GRAPHS, NO_GRAPH, READABLE, About, Export, register

if TYPE_CHECKING:
    from crossner_core.training.predictor import Predictor

VERSION, LANGUAGE = "1.0.0", "en"


def write(predictor: Predictor, folder: Path, about: About, int8: bool) -> None:
    """Write pyproject.toml, README.md and the package: component, decoder, model, and spaCy's config."""
    from crossner_core.exports._card import card
    from crossner_core.exports._graph import write_model
    from crossner_core.exports._writing import DECODER

    name = package_name(about)
    package = folder / name
    data = package / f"{name}-{VERSION}"
    for place in (data, package / "model"):
        place.mkdir(parents=True)
    write_model(predictor, package / "model", about, single=not int8, both=False)
    _write_pipeline(data, package, name, about)
    component = DECODER.with_name("_spacy_component.py").read_text("utf-8")
    (package / "component.py").write_text(component, "utf-8")
    (package / DECODER.name).write_bytes(DECODER.read_bytes())
    (package / "__init__.py").write_text(_INIT.format(title=about.name, version=VERSION), "utf-8")
    reads_subwords = predictor.encoder.kind == TRANSFORMER
    (folder / "pyproject.toml").write_text(_project(name, about, reads_subwords=reads_subwords), "utf-8")
    (folder / "README.md").write_text(card(predictor, about, _USE.format(name=name)), "utf-8")


def package_name(about: About) -> str:
    """Return the package's name: the language, and the run's name in small letters, digits and `_`."""
    return f"{LANGUAGE}_{re.sub(r'[^a-z0-9]+', '_', about.name.lower()).strip('_') or 'tagger'}"


def _write_pipeline(data: Path, package: Path, name: str, about: About) -> None:
    try:
        import spacy
    except ImportError as error:
        raise InvalidConfig(f"spaCy is not installed here: {error}. pip install spacy, or export to onnx.") from error
    nlp = spacy.blank(LANGUAGE)
    config = nlp.config.copy()
    config["nlp"]["tokenizer"] = {"@tokenizers": f"{name}_words.v1"}
    config["nlp"]["pipeline"] = ["crossner"]
    config["components"] = {"crossner": {"factory": f"{name}_tagger", "threads": 0}}
    config.to_disk(data / "config.cfg")
    meta = {
        **nlp.meta,
        "name": name.removeprefix(f"{LANGUAGE}_"),
        "version": VERSION,
        "description": f"Named entities: {about.name}, trained on {about.trained_on}",
        "license": "",
        "pipeline": ["crossner"],
        "components": ["crossner"],
    }
    for place in (data, package):
        (place / "meta.json").write_text(json.dumps(meta, ensure_ascii=False, indent=1), "utf-8")


def _project(name: str, about: About, *, reads_subwords: bool) -> str:
    from importlib.metadata import version

    pins = {"spacy": "3.8", "onnxruntime": "", **({"tokenizers": ""} if reads_subwords else {}), "numpy": ""}
    needs = [f"{package}>={low or version(package)}" for package, low in pins.items()]
    needs[0] += ",<3.9"
    return _PROJECT.format(
        name=name.replace("_", "-"),
        package=name,
        version=VERSION,
        title=json.dumps(about.name),
        needs=json.dumps(needs),
    )


_PROJECT = """\
[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "{name}"
version = "{version}"
description = {title}
readme = "README.md"
requires-python = ">=3.11"
dependencies = {needs}

[project.entry-points.spacy_factories]
{package}_tagger = "{package}.component:make_entities"

[project.entry-points.spacy_tokenizers]
"{package}_words.v1" = "{package}.component:make_words"

[tool.setuptools]
packages = ["{package}"]

[tool.setuptools.package-data]
{package} = ["meta.json", "model/*", "{package}-{version}/*"]
"""
_INIT = '''\
"""{title}: a spaCy pipeline that finds named entities."""

from pathlib import Path

from spacy.util import load_model_from_init_py

__version__ = "{version}"


def load(**overrides):
    """Return the pipeline; called by `spacy.load`."""
    return load_model_from_init_py(Path(__file__), **overrides)
'''
_USE = """\
```sh
pip install FOLDER
```

```python
import spacy

nlp = spacy.load("{name}")
doc = nlp("Ada Brook sang with The Tin Foxes in Leeds.")
doc.ents
list(zip(doc.spans["crossner"], doc.spans["crossner"].attrs["scores"]))
```

It needs neither PyTorch nor the workbench. The tokens are those the tagger was trained on. For texts of several
sentences put a sentence splitter first: `nlp.add_pipe("sentencizer", first=True)`; else a text is read as one sentence.
In a pipeline of yours, `nlp.add_pipe("{name}_tagger")` reads the text by its own rules, widens an entity that ends
inside a token to the whole token, and replaces the entities that were there.
"""

register(
    Export(
        id="spacy",
        title="spaCy (a package to install, on ONNX Runtime)",
        takes=GRAPHS,
        write=write,
        refused=NO_GRAPH,
        encoders=READABLE,
    )
)
