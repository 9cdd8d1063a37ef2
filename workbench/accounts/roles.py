"""Roles, what each may do, and the sets of them that use cases and pages ask for."""

from __future__ import annotations

from typing import Literal, get_args

from crossner_core.errors import NotFound

Role = Literal["annotator", "expert", "researcher", "admin"]

EVERYONE: tuple[str, ...] = get_args(Role)
LABELLERS = ("annotator", "expert")
"""Roles that label; they see the campaigns they are members of, and no others."""
OVERSEERS = ("expert", "researcher", "admin")
KEEPERS = ("researcher", "admin")
ARBITERS = ("expert", "admin")
"""Roles that may put parked sentences back."""
STAGE_ROLES = {"annotate": LABELLERS, "check": LABELLERS, "adjudicate": ("expert",)}
ROLE_TASKS = {
    "annotator": "annotates, checks, answers questions",
    "expert": "annotates, checks, adjudicates, follows the campaign",
    "researcher": "makes campaigns, imports and exports, retrains, follows the campaign",
    "admin": "manages people, campaigns and domains, and does what a researcher does",
}


def stage_roles(stage: str) -> tuple[str, ...]:
    """Return who may work at a stage; raise NotFound for a stage that does not exist."""
    if stage not in STAGE_ROLES:
        raise NotFound(f"There is no stage {stage!r}; stages are {', '.join(STAGE_ROLES)}.")
    return STAGE_ROLES[stage]
