"""The addresses at which other annotation tools reach a campaign."""

from __future__ import annotations

from urllib.parse import urlsplit

import streamlit as st

from workbench.campaigns.campaigns import CampaignView
from workbench.http.protocols.aero import AERO
from workbench.http.protocols.inception import INCEPTION
from workbench.http.protocols.label_studio import LABEL_STUDIO

_TOKEN = "TOKEN"


def addresses_view(campaign: CampaignView) -> None:
    """Draw the addresses to paste, folded away; a token has to be put in."""
    with st.expander("Use from INCEpTION, Label Studio"):
        st.markdown(
            f"The campaign's best model predicts for both tools. Put a token with the scope *read*, made on "
            f"[My account](/account), where `{_TOKEN}` stands; whoever has the address can use it until the token is "
            "revoked."
        )
        for title, address in addresses(campaign.id, _server()).items():
            st.caption(title)
            st.code(address, language=None)


def addresses(campaign_id: int, server: str) -> dict[str, str]:
    """Return what each tool is given, by where it is pasted."""
    return {
        "INCEpTION: Recommenders, Remote classifier": f"{server}{INCEPTION.root}/{campaign_id}/{_TOKEN}",
        "Label Studio: Settings, Model": f"{server}{LABEL_STUDIO.root}/{campaign_id}/{_TOKEN}",
        f"pycaprio: host of {AERO.root}; your account name, and the token as the password": server,
    }


def _server() -> str:
    """Return the server's address as this browser has it."""
    url = urlsplit(st.context.url or "")
    return f"{url.scheme}://{url.netloc}" if url.netloc else "http://HOST"
