"""The file of outside models: addresses and names of variables, never a key, and errors that say what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossner_core.errors import InvalidConfig, NotFound
from crossner_core.outside.listing import find_model, kind_of, kinds, read_models
from crossner_core.suggest.chat import ChatModel
from crossner_core.suggest.gliner import GlinerModel

FILE = """
[local]
kind = "gliner"
address = "http://127.0.0.1:8080/find"
threshold = 0.4

[cloud]
kind = "chat"
address = "https://api.example/v1"
model = "large"
key_variable = "CLOUD_KEY"
input_price = 0.5
output_price = 2
currency = "EUR"
"""


def test_models_are_read_in_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "outside.toml"
    assert read_models(file) == {}
    file.write_text(FILE)
    models = read_models(file)
    assert list(models) == ["local", "cloud"] and kind_of(models["local"]).id == "gliner"
    assert models["local"] == GlinerModel(name="local", address="http://127.0.0.1:8080/find", threshold=0.4)
    cloud = find_model(models, "cloud")
    assert isinstance(cloud, ChatModel) and cloud.price(1, 1_000_000, 500_000) == 1.5 and cloud.has_price
    with pytest.raises(NotFound, match="no outside model 'mine'; there are: local, cloud"):
        find_model(models, "mine")
    assert set(kinds()) == {"chat", "gliner"}


A = 'address = "https://a.example"'


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("kind =", "not TOML"),
        ("kind = 3", "unknown kind; allowed are chat, gliner"),
        ('address = "http://a.example"', "has no kind"),
        ('kind = "chat"', "address of own is ''; give an http or https URL"),
        ('kind = "chat"\naddress = "file:///etc/passwd"', "give an http or https URL"),
        ('kind = "chat"\naddress = "ftp://a.example"', "give an http or https URL"),
        ('kind = "chat"\naddress = "https://me:secret@a.example"', "carries a user name"),
        ('kind = "chat"\naddress = "https://a.example/v1?key=secret"', "part behind"),
        (f'kind = "chat"\n{A}\napi_key = "secret"', "'api_key'.*does not belong into this file"),
        (f'kind = "chat"\n{A}\nkey_variable = "sk-secret"', "no name of an environment variable"),
        (f'kind = "chat"\n{A}\nretries = 99', "retries is 99"),
        (f'kind = "chat"\n{A}\ntimeout = "long"', "timeout is 'long'"),
        (f'kind = "chat"\n{A}\ninput_price = nan', "finite number"),
        (f'kind = "chat"\n{A}\nformat = "xml"', "choose one of json_schema, json_object, none"),
        (f'kind = "gliner"\n{A}\ntemperature = 1', "unknown setting 'temperature'"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_and_no_secret_is_shown(tmp_path: Path, table: str, why: str) -> None:
    file = tmp_path / "outside.toml"
    file.write_text(f"[own]\n{table}\n")
    with pytest.raises(InvalidConfig, match=why) as caught:
        read_models(file)
    assert "outside.toml" in str(caught.value) and "secret" not in str(caught.value)


def test_what_is_no_table_or_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "outside.toml"
    file.write_text('address = "https://a.example"')
    with pytest.raises(InvalidConfig, match="address stands outside a table"):
        read_models(file)
    file.write_text('["a b"]\nkind = "chat"\naddress = "https://a.example"')
    with pytest.raises(InvalidConfig, match="called 'a b'"):
        read_models(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidConfig, match="cannot be read"):
        read_models(file)
