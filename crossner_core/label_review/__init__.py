"""A second look at gold: checks that say which spans may be wrong; one file a check, torch only where it trains."""
