"""The CrossNER engine: sentences, tags, formats, gazetteer, models, training and evaluation."""
