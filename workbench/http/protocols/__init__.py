"""Protocols of other annotation tools beside the API, a file each: AERO, INCEpTION, Label Studio."""
