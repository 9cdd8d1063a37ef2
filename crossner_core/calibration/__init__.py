"""How far a score can be believed: reliability, temperature, span scores, and what gold says of each source."""
