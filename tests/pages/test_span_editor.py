"""The span editor: its pure modules in Node, its bundle, its Python face, and the colours of entity types."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pages.components.palette import PALETTE, EntityColour, entity_colour, mark_colours, palette_css
from pages.components.span_editor import HERE, MODULES, bundle
from tests.support.paths import ROOT
from tests.support.screens import part


def node() -> str:
    """Path of Node; the test is skipped where there is none."""
    found = shutil.which("node")
    if not found:
        pytest.skip("node is not installed: the editor's modules are only tested where it is")
    return found


def test_editor_modules_pass_their_node_tests() -> None:
    files = sorted(str(path) for path in (ROOT / "tests" / "support" / "editor").glob("*.test.mjs"))
    assert len(files) >= 5
    done = subprocess.run([node(), "--test", *files], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "# pass 0" not in done.stdout


def test_bundle_is_one_valid_module(tmp_path: Path) -> None:
    (tmp_path / "bundle.mjs").write_text(bundle(), encoding="utf-8")
    done = subprocess.run([node(), "--check", str(tmp_path / "bundle.mjs")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"^export .*", bundle(), re.MULTILINE) == ["export default function mount(component) {"]
    assert not re.search(r"^import\b", bundle(), re.MULTILINE)
    assert ".editor" in bundle() and palette_css()[:20] in bundle()


def test_bundle_holds_every_module_after_what_it_uses() -> None:
    assert {path.name for path in HERE.glob("*.js")} == set(MODULES)
    for place, name in enumerate(MODULES):
        used = re.findall(r'from "\./([\w.]+)"', (HERE / name).read_text(encoding="utf-8"))
        assert set(used) <= set(MODULES[:place]), name


def test_editor_never_turns_data_into_markup() -> None:
    for path in HERE.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", path.read_text()), path


def face() -> None:
    """Mount the editor as a page does, once."""
    from pages.components.span_editor import span_editor

    value = span_editor(payload={"user": 7, "items": [], "types": [], "mode": "view"}, key="editor")
    assert value is None


def test_editor_face_sends_the_payload_and_the_address_of_its_script() -> None:
    page = part(face).run()
    assert not page.exception
    (mounted,) = page.get("bidi_component")
    assert '"user":7' in mounted.proto.json.replace(" ", "")
    assert mounted.proto.isolate_styles
    sent = mounted.proto.js_content + mounted.proto.css_content + mounted.proto.html_content
    assert len(sent) < 300 and re.search(r"/parts/span_editor\.[0-9a-f]{20}\.js", sent)


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb`; source: WCAG 2.2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colour", PALETTE, ids=range(len(PALETTE)))
def test_palette_is_legible_in_light_and_dark(colour: EntityColour) -> None:
    assert contrast(colour.light_fill, colour.light_text) >= 4.5
    assert contrast("#ffffff", colour.light_text) >= 4.5
    assert contrast(colour.dark_fill, colour.dark_text) >= 4.5
    assert contrast("#0e1117", colour.dark_text) >= 4.5
    assert min(contrast("#ffffff", colour.mark), contrast("#0e1117", colour.mark)) >= 3


def test_palette_has_twenty_colours_and_then_repeats() -> None:
    assert len({colour.mark for colour in PALETTE}) == 20
    assert entity_colour(21) == PALETTE[1]
    assert mark_colours(3) == [colour.mark for colour in PALETTE[:3]]
    assert palette_css().count(".t19{") == 2
