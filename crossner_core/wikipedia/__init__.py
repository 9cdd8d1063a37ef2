"""Wikipedia: from a dump to sentences with link spans, and the corpora made from them."""
