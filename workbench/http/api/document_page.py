"""The page at /api/v1/: every route with its parameters, body and answer, as plain HTML without a script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from itertools import groupby
from typing import Any

from starlette.responses import HTMLResponse, Response

from workbench.accounts.tokens import SCOPE_WORDS
from workbench.http.api.declared import ROOT, Declared, File, routes
from workbench.http.api.openapi import kinds_of, openapi, parameters_of
from workbench.http.api.problems import KINDS
from workbench.http.headers import FORM_POLICY

_STYLE = """
:root { color-scheme: light dark; --back: #f6f7f9; --card: #ffffff; --ink: #1d2530; --soft: #55606f; --line: #cfd6df;
  --accent: #1f5fa8; }
@media (prefers-color-scheme: dark) { :root { --back: #14181d; --card: #1c2229; --ink: #e6ebf1; --soft: #a1adba;
  --line: #3b4652; --accent: #7db2f0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink);
  font: 16px/1.5 "Source Sans 3", "Source Sans Pro", system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin-top: 2rem; } h3 { font-size: 1rem; margin: 0 0 .25rem; }
article { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 0 0 1rem; }
p { margin: 0 0 .75rem; } .soft { color: var(--soft); } a { color: var(--accent); }
code, pre { font-family: ui-monospace, "SFMono-Regular", Menlo, Consolas, monospace; font-size: .875rem; }
pre { overflow-x: auto; background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; margin: 0 0 .75rem; }
th, td { text-align: left; vertical-align: top; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid var(--line); }
summary { cursor: pointer; } :target { outline: 3px solid var(--accent); outline-offset: 2px; }
"""
_EXAMPLE = f'curl -H "Authorization: Bearer $TOKEN" https://HOST{ROOT}/campaigns'


def document_page() -> Response:
    """Answer with the page."""
    return HTMLResponse(_page(), headers={"content-security-policy": FORM_POLICY})


@cache
def _page() -> str:
    groups = [(name, list(part)) for name, part in groupby(routes(), lambda route: route.group)]
    scopes = _table(("scope", "allows"), [(_code(name), escape(words)) for name, words in SCOPE_WORDS.items()])
    body = f"""<h1>CrossNER workbench: the API</h1>
<p>A program sends a personal token with each request; one is made on <a href="/account">My account</a>. A token acts as
its person, with the rights the person has at that moment, and within its scope.</p>{scopes}
<pre>{escape(_EXAMPLE)}</pre>
<p>Bodies and answers are JSON in UTF-8. A list comes in pages: <code>next</code> is the <code>cursor</code> of the
following one, and null at the end. Offsets of characters count code points and are half-open, as those of tokens are. A
probability lies in [0, 1], and so does an F1. Moments are in UTC. The same as
<a href="{ROOT}/openapi.json">OpenAPI 3.1</a>.</p>
<p>A request that makes something may carry the header <code>Idempotency-Key</code>: sent again within 24 hours, it is
not carried out again, but answered the same.</p>
<p>An answer to a <code>GET</code> has an <code>ETag</code>: as <code>If-None-Match</code> it saves sending what you
have (304), as <code>If-Match</code> of a <code>PATCH</code> or <code>DELETE</code> it keeps you from changing what has
changed since (412).</p>
<nav aria-label="Routes"><ul>{"".join(_listed(part) for _, part in groups)}</ul></nav>
{"".join(f"<section><h2>{escape(_title(name))}</h2>{''.join(map(_article, part))}</section>" for name, part in groups)}
<section><h2>Problems</h2><p>What was not done is answered as <code>application/problem+json</code> (RFC 9457) with
<code>type</code>, <code>title</code>, <code>status</code>, <code>detail</code> and <code>instance</code>; for files
with <code>problems</code>, a line each. <code>Retry-After</code> says how many seconds to wait.</p>
<div class="wide"><table><thead><tr><th>type</th><th>status</th><th>title</th></tr></thead><tbody>{_kinds()}</tbody>
</table></div></section>"""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<title>API · CrossNER workbench</title><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body><main>{body}</main></body></html>"
    )


def _title(group: str) -> str:
    return group.replace("_", " ").capitalize()


def _listed(part: Sequence[Declared]) -> str:
    return "".join(
        f'<li><a href="#{route.name}"><code>{route.method} {escape(ROOT + route.path)}</code></a> '
        f"{escape(route.summary)}</li>"
        for route in part
    )


def _article(route: Declared) -> str:
    rows = [
        (
            _code(parameter["name"]),
            parameter["in"] + (", required" if parameter["required"] else ""),
            escape(_allowed(parameter["schema"])),
            escape(parameter.get("description", "")),
        )
        for parameter in parameters_of(route)
    ]
    parameters = _table(("parameter", "in", "value", ""), rows) if rows else ""
    key = "<p>Takes an <code>Idempotency-Key</code>.</p>" if route.creates else ""
    problems = ", ".join(
        f'<a href="#problem-{kind.name}">{kind.status} {escape(kind.name)}</a>' for kind in kinds_of(route)
    )
    return f"""<article id="{route.name}"><h3><code>{route.method} {escape(ROOT + route.path)}</code></h3>
<p>{escape(route.summary)} {escape(route.description)}</p>
<p class="soft">For {escape(", ".join(route.roles))} · scope <code>{route.scope}</code></p>
{parameters}{_body(route)}{key}{_answer(route)}<p class="soft">Problems: {problems}</p></article>"""


def _body(route: Declared) -> str:
    if route.body is None:
        return ""
    most = f"at most {route.most_bytes:,} bytes"
    if route.takes_files:
        return f"<p>Body: <code>multipart/form-data</code>, each file in a field <code>files</code>; {most}.</p>"
    return f"<p>Body: <code>application/json</code>, {most}.</p>{_details(route.body.__name__)}"


def _answer(route: Declared) -> str:
    if route.answer is File:
        return f"<p>Answers {route.status} with the file.</p>"
    if route.answer is type(None):
        return f"<p>Answers {route.status} without a body.</p>"
    later = _answer_of(route, 202, ", where it takes long and the worker does it") if route.later is not None else ""
    return _answer_of(route, route.status) + later


def _answer_of(route: Declared, status: int, when: str = "") -> str:
    operation = openapi()["paths"][ROOT + route.path][route.method.lower()]
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    return f"<p>Answers {status}{when}.</p>{_details(schema['$ref'].rsplit('/', 1)[1])}"


def _details(model: str) -> str:
    """Show a schema with those it names, in the order in which it names them."""
    schemas, wanted, shown = openapi()["components"]["schemas"], [model], dict[str, Any]()
    while wanted:
        name = wanted.pop(0)
        if name not in shown:
            shown[name] = schemas[name]
            wanted += list(_named(schemas[name]))
    tables = "".join(f"<h4>{escape(name)}</h4>{_fields(schema)}" for name, schema in shown.items())
    return f"<details><summary><code>{escape(model)}</code></summary>{tables}</details>"


def _fields(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (
            _code(name) + ("" if name in required else " (optional)"),
            escape(_allowed(described)),
            escape(described.get("description", "")),
        )
        for name, described in schema.get("properties", {}).items()
    ]
    return _table(("field", "value", ""), rows)


def _named(schema: Any) -> Iterable[str]:
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rsplit("/", 1)[1]
        for value in schema.values():
            yield from _named(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _named(value)


def _allowed(schema: Mapping[str, Any]) -> str:
    """Say in a few words which values a schema allows."""
    if "$ref" in schema:
        return str(schema["$ref"].rsplit("/", 1)[1])
    if "anyOf" in schema:
        return " or ".join(_allowed(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "const" in schema:
        return json.dumps(schema["const"])
    kind = str(schema.get("type", "any"))
    if kind == "array":
        inner = schema.get("items") or {"type": " ".join(map(_allowed, schema.get("prefixItems", ())))}
        kind = f"list of {_allowed(inner)}"
    bounds = (("minimum", "≥"), ("maximum", "≤"), ("minLength", "length ≥"), ("maxLength", "length ≤"))
    limits = [f"{sign} {schema[key]}" for key, sign in (*bounds, ("minItems", "≥"), ("maxItems", "≤")) if key in schema]
    default = [f"default {json.dumps(schema['default'])}"] if schema.get("default") is not None else []
    return ", ".join([kind, *limits, *default])


def _kinds() -> str:
    return "".join(
        f'<tr id="problem-{kind.name}"><td>{_code(kind.uri)}</td><td>{kind.status}</td>'
        f"<td>{escape(kind.title)}</td></tr>"
        for kind in KINDS
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Make a table; cells are HTML already."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table></div>'


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"
