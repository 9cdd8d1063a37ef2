"""Baselines with a CRF for each domain: La-DTL, DATNet and the cross-domain language model; `plan` needs no torch."""

from crossner_core.training.settings.two_crfs import plan as plan
