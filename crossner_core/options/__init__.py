"""What a recipe can say: one frozen dataclass a part, free of torch, from which forms and flags are made."""
