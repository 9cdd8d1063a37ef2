"""Sign-in with an OpenID Connect provider: its settings, requests to it, and its tokens."""
