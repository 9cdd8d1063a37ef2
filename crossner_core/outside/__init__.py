"""Outside models that are asked over HTTP: what is sent, how answers are checked, and what that may cost."""
