"""Ways to transfer knowledge from the source domain to the target domain."""
