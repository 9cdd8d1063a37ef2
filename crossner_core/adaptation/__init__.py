"""Ways to carry knowledge from the source domain to the target domain."""
