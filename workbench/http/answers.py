"""Answers in JSON to parts in the browser: a value, or why there is none."""

from __future__ import annotations

import json
import logging
from typing import Any

from starlette.responses import Response

from crossner_core.errors import BadInput, Conflict, StorageError, StoreFailed, WorkbenchError

log = logging.getLogger(__name__)


def json_answer(status: int, value: Any) -> Response:
    # Half a surrogate pair, which UTF-8 has no bytes for, becomes the escape that JSON has for it.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="application/json")


def problem(status: int, words: str, *, reason: str | None = None) -> Response:
    """Answer with why nothing was done; the reason `reload` asks the browser to open the page anew."""
    response = json_answer(status, {"problem": words} | ({"reason": reason} if reason else {}))
    if status == 503:
        response.headers["retry-after"] = "5"
    return response


def refusal(error: WorkbenchError, what: str) -> Response:
    """Answer with a use case's error; of a store's own trouble only the log hears, with `what` was not done."""
    if isinstance(error, StorageError):
        log.error("%s: %s", what, error)
        return problem(503, StoreFailed.TRY_LATER)
    status = 400 if isinstance(error, BadInput) else 409 if isinstance(error, Conflict) else 403
    return problem(status, str(error))
