"""The REST API under /api/v1: routes declared once, answered for tokens alone, described as OpenAPI and as a page."""
