"""The checks of the doctor, by subject; each registers itself with `register`."""
