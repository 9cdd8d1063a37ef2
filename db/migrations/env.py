"""Alembic's entry: run the migrations on the connection that `db.migrate` hands over."""

from __future__ import annotations

from alembic import context

import db.accounts.identity_tables
import db.audit.tables
import db.label_review_tables
import db.programs.webhook_tables
import db.tables
import db.training_tables  # noqa: F401
from db.types import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
