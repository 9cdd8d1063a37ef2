"""Parts of the pages of one campaign."""
