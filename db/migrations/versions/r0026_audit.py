"""the audit trail, and an index to read submitted work by time"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0026'
down_revision = '0025'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('audit_entry',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('done_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.Column('actor_id', sa.Integer(), nullable=True),
    sa.Column('actor_name', sa.Text(), nullable=False),
    sa.Column('via', sa.Text(), nullable=False),
    sa.Column('token_id', sa.Integer(), nullable=True),
    sa.Column('action', sa.Text(), nullable=False),
    sa.Column('campaign_id', sa.Integer(), nullable=True),
    sa.Column('subject_kind', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('details', sa.Text(), nullable=False),
    sa.CheckConstraint("via IN ('page', 'api', 'command', 'worker')", name=op.f('ck_audit_entry_via')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_audit_entry')),
    sqlite_autoincrement=True
    )
    with op.batch_alter_table('audit_entry', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_audit_entry_done_at'), ['done_at'], unique=False)
        batch_op.create_index('ix_audit_entry_campaign', ['campaign_id', 'done_at'], unique=False)

    with op.batch_alter_table('annotation_version', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_annotation_version_submitted_at'), ['submitted_at'], unique=False)



def downgrade() -> None:
    with op.batch_alter_table('annotation_version', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_annotation_version_submitted_at'))

    with op.batch_alter_table('audit_entry', schema=None) as batch_op:
        batch_op.drop_index('ix_audit_entry_campaign')
        batch_op.drop_index(batch_op.f('ix_audit_entry_done_at'))

    op.drop_table('audit_entry')
