"""Parts of the pages about models."""
