"""Tables and rows of sign-in with a provider."""
