"""Rows of documents: sentences that came in one file or text."""
