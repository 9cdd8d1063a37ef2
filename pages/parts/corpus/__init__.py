"""Parts of the pages about corpora and gazetteers."""
