"""The recipe form and its flags: titles, which fields are shown, what is kept, and what is said of the rest."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from crossner_core.models.registry import architecture, architecture_ids, architecture_title
from crossner_core.options.base import matters
from crossner_core.options.label_review import LabelReviewOptions
from crossner_core.training.recipe import Recipe, without_effect
from crossner_core.training.settings.registry import setting_ids
from tests.support.paths import ROOT
from tests.support.screens import part
from workbench import cli
from workbench.runs.recipe_names import other_than_default, recipe_name, setting_name, setting_title


def _recipe_page() -> None:
    import streamlit as st

    from pages.parts.model.recipe_form import recipe_inputs
    from workbench.runs.source_corpora import Source

    sources = (Source("conll2003", "conll2003 · data set"), Source("gold:3", "Music · gold, 12 sentences"))
    st.session_state["values"] = recipe_inputs("form", sources, ("own-encoder",))


def _own_page() -> None:
    import streamlit as st

    from pages import shell
    from pages.parts.model.recipe_form import option_inputs
    from tests.support.screens import OwnOptions

    with shell.shown_errors():
        st.session_state["values"] = option_inputs(OwnOptions, "own")


def _run(page: Callable[[], None]) -> AppTest:
    test = part(page).run()
    assert not test.exception, test.exception
    return test


def _set(test: AppTest, kind: str, key: str, value: Any) -> AppTest:
    getattr(test, kind)(key=key).set_value(value).run()
    assert not test.exception, test.exception
    return test


def _asked(test: AppTest) -> set[str]:
    inputs = [*test.selectbox, *test.multiselect, *test.number_input, *test.text_input]
    return {str(one.key).removeprefix("form-") for one in inputs}


@pytest.mark.parametrize("id", architecture_ids())
def test_architecture_title_is_the_one_it_registers(id: str) -> None:
    assert architecture_title(id) == architecture(id).title


def test_architecture_titles_need_no_torch() -> None:
    code = (
        "import sys\nfrom crossner_core.models.registry import architecture_ids, architecture_title\n"
        "assert all(map(architecture_title, architecture_ids()))\nassert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_setting_titles_are_a_short_name_and_what_it_does() -> None:
    short = [setting_name(id) for id in setting_ids()]
    assert len(set(short)) == len(short) and all(len(name) < 40 for name in short)
    assert all(setting_title(id).split(": ")[1] for id in setting_ids())
    assert setting_name("gone") == "gone"  # a run of a setting that is no longer there still has a name


def test_recipe_name_says_what_decides_a_method() -> None:
    direct = recipe_name(Recipe().to_dict())
    joint = recipe_name(Recipe(setting="joint", source="news", encoder="/some/where/mine").to_dict())
    assert direct == "Direct · BERT tagger · minilm"
    assert joint == "Joint from news · BERT tagger · mine"


def test_other_than_default_names_what_was_changed_in_words() -> None:
    values = Recipe(learning_rate=5e-5, constrained=False, setting="joint", seed=3).to_dict()
    assert other_than_default(Recipe, values) == "learning rate 5e-05, constrained off"


@pytest.mark.parametrize(
    ("architecture", "setting"),
    [
        ("tagger", "direct"),
        ("label_aware", "pretrain_finetune"),
        ("tagger", "joint"),
        ("crf", "pdaln"),
        ("bilstm_crf", "datnet"),
        ("bilstm_crf", "cross_domain_lm"),
        ("bilstm_crf", "cross_domain_lm_unsupervised"),
    ],
)
def test_recipe_form_asks_what_has_an_effect_and_nothing_else(architecture: str, setting: str) -> None:
    test = _run(_recipe_page)
    _set(test, "selectbox", "form-architecture", architecture)
    _set(test, "selectbox", "form-setting", setting)
    values = Recipe(architecture=architecture, setting=setting).to_dict()
    wanted = {spec.name for spec in fields(Recipe) if matters(spec, values)}
    assert _asked(test) == wanted == set(test.session_state["values"])


def test_recipe_form_keeps_what_was_typed_while_it_is_not_shown() -> None:
    test = _run(_recipe_page)
    _set(test, "selectbox", "form-setting", "joint")
    _set(test, "number_input", "form-upsample", 7)
    assert any("upsample 7" in one.value for one in test.caption)
    _set(test, "selectbox", "form-setting", "direct")
    assert "upsample" not in test.session_state["values"]
    assert not any("upsample" in one.value for one in test.caption)
    _set(test, "selectbox", "form-setting", "joint")
    assert test.session_state["values"]["upsample"] == 7
    assert Recipe.from_dict(test.session_state["values"]) == Recipe(setting="joint", upsample=7)


def test_recipe_form_offers_encoders_and_takes_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.parts.model.recipe_form.word_encoders", lambda: ("words", "words:glove"))
    test = _run(_recipe_page)
    encoder = test.selectbox(key="form-encoder")
    assert encoder.options == ["minilm", "own-encoder", "words", "words:glove"] and encoder.proto.accept_new_options
    _set(test, "selectbox", "form-setting", "joint")
    source = test.multiselect(key="form-source")
    assert source.options == ["conll2003 · data set", "Music · gold, 12 sentences"] and source.value == ["conll2003"]
    _set(test, "multiselect", "form-source", ["gold:3", "conll2003"])
    assert test.session_state["values"]["source"] == "gold:3, conll2003"


def test_option_inputs_serve_any_options() -> None:
    test = _run(_own_page)
    assert test.session_state["values"] == {"mode": "plain", "sizes": (10, 25)}
    _set(test, "selectbox", "own-mode", "fancy")
    _set(test, "text_input", "own-sizes", "5, 7,")
    assert test.session_state["values"] == {"mode": "fancy", "twist": 0.5, "sizes": (5, 7)}
    _set(test, "text_input", "own-sizes", "five")
    assert "'five'" in test.error[0].value and "whole numbers" in test.error[0].value


def test_without_effect_says_why() -> None:
    assert without_effect(Recipe(), Recipe().to_dict()) == ()
    assert without_effect(Recipe(label_size=50), ["label_size", "batch_size"]) == (
        "label_size has no effect with architecture tagger.",
    )
    assert without_effect(Recipe(architecture="label_aware", label_size=50), ["label_size"]) == ()
    joint = Recipe(setting="joint", max_epochs=3, upsample=2, source_epochs=1)
    assert without_effect(joint, ["max_epochs", "upsample", "source_epochs"]) == (
        "max_epochs has no effect with setting joint.",
    )


def test_flags_without_effect_are_named_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store_template: Path
) -> None:
    (tmp_path / "workbench.sqlite3").write_bytes(store_template.read_bytes())
    monkeypatch.setenv("CROSSNER_HOME", str(tmp_path))
    monkeypatch.delenv("CROSSNER_DATABASE_URL", raising=False)
    assert cli.main(["user", "add", "adm", "--role", "admin"]) == 0
    capfd.readouterr()
    assert cli.main(["run", "--dataset", "x", "--label-size", "50", "--batch-size", "4"]) == 2
    said = capfd.readouterr().err.splitlines()
    assert said[0] == "label_size has no effect with architecture tagger." and len(said) == 2


def test_help_of_a_run_groups_its_flags(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--help"]) == 0
    said = capfd.readouterr().out
    heads = [line for line in said.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert heads[:3] == ["Options:", "Recipe: model:", "Recipe: training on the target:"]
    assert "Only with architecture label_aware or type_label_aware:" in heads
    own = said.split("Only with architecture label_aware or type_label_aware:")[1].split(":\n")[0]
    assert "--label-size" in own and "--batch-size" not in own
    assert all(f"--{spec.name.replace('_', '-')} " in said for spec in fields(Recipe))


def _review_page() -> None:
    import streamlit as st

    from crossner_core.options.label_review import LabelReviewOptions
    from pages.parts.model.recipe_form import option_inputs

    st.session_state["values"] = option_inputs(LabelReviewOptions, "review", only=("judge", "repeats", "alike"))


def test_option_inputs_show_titles_and_return_the_stored_choice() -> None:
    page = part(_review_page).run()
    assert [each.label for each in page.number_input] == ["Reshuffles", "Similarity threshold"]
    (model,) = page.selectbox
    assert model.label == "Checking model" and model.options[0] == "linear classifier (seconds)"
    model.select_index(1)
    page.run()
    assert page.session_state["values"]["judge"] == "tagger"


def test_changed_options_are_listed_by_their_titles() -> None:
    changed = other_than_default(LabelReviewOptions, {"judge": "tagger", "alike": 0.7, "folds": 5})
    assert changed == "checking model tagger trained anew (minutes), similarity threshold 0.7"
