"""The options of a recipe: one frozen dataclass per part, torch-free, from which forms and flags are generated."""
