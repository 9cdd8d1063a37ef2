"""What every origin of a gazetteer says about pages, whether dump, endpoint or Wikipedia."""

from __future__ import annotations

from typing import NamedTuple


class Typed(NamedTuple):
    """A page has a class: page title with spaces, class name (`Band`)."""

    entity: str
    cls: str


class Label(NamedTuple):
    """A page is called this."""

    entity: str
    text: str


class Redirect(NamedTuple):
    """A title leads to a page, or to another redirect."""

    source: str
    target: str


class Count(NamedTuple):
    """A page is linked to this often; counts of one page, and of the redirects that lead to it, are added up."""

    entity: str
    n: int


Fact = Typed | Label | Redirect | Count
