"""What the figures say: progress, agreement, effort, errors, curves, comparisons."""
