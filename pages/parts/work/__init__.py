"""Parts of the pages on which people label."""
