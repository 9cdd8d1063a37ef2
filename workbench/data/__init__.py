"""Sentences and labels in and out: files, corpora, data sets, snapshots, archives."""
