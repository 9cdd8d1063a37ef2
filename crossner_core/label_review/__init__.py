"""Label review: checks that find spans that may be wrong; one file per check, torch only for training."""
