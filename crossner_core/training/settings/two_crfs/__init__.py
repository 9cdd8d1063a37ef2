"""Two baselines of PDALN's table with a CRF for each domain on one body: La-DTL and DATNet; `plan` needs no torch."""

from crossner_core.training.settings.two_crfs import plan as plan
