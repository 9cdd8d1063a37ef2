"""PDALN: progressive domain adaptation by exchanged entities, MMD, contrast and distillation. No code was released.

Source: Zhang et al. 2021, "PDALN: Progressive Domain Adaptation over a Pre-trained Model for Low-Resource
Cross-Domain Named Entity Recognition", EMNLP. `plan` registers the settings and needs no torch.
"""

from crossner_core.training.settings.pdaln import plan as plan
