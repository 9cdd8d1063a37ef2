"""People's work on sentences: handed out, saved, checked, adjudicated, reviewed."""
