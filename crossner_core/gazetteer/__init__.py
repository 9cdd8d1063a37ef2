"""The gazetteer: names looked up in DBpedia, at an endpoint or in a file, and pre-annotation with their classes."""
