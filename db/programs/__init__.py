"""Tables and row functions of what other programs are told: webhooks."""
