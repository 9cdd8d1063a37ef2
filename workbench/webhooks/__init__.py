"""Webhooks: a campaign's events, kept with what happened and sent to other programs by the worker."""
