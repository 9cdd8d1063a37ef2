"""Reports: progress, agreement, effort, errors, curves, comparisons."""
