"""A trained tagger as files that other software reads; one file per target."""
