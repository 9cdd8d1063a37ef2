"""Self-training: a student learns from gold and from its teacher's soft targets on unlabelled target sentences."""

from crossner_core.training.settings.self_training import plan as plan
