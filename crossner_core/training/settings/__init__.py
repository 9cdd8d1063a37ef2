"""Transfer settings: one file or package each, which plans the stages of a run from its recipe and data."""
