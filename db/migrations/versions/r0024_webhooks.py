"""webhooks and their deliveries"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0024'
down_revision = '0023'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('webhook',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('campaign_id', sa.Integer(), nullable=False),
    sa.Column('url', sa.Text(), nullable=False),
    sa.Column('events', sa.JSON(), nullable=False),
    sa.Column('secret', sa.Text(), nullable=False),
    sa.Column('active', sa.Boolean(), nullable=False),
    sa.Column('off_reason', sa.Text(), nullable=False),
    sa.Column('created_by', sa.Integer(), nullable=True),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['campaign_id'], ['campaign.id'], name=op.f('fk_webhook_campaign_id_campaign'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['created_by'], ['user_account.id'], name=op.f('fk_webhook_created_by_user_account')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_webhook'))
    )
    with op.batch_alter_table('webhook', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_webhook_campaign_id'), ['campaign_id'], unique=False)

    op.create_table('webhook_delivery',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('webhook_id', sa.Integer(), nullable=False),
    sa.Column('message_id', sa.Text(), nullable=False),
    sa.Column('type', sa.Text(), nullable=False),
    sa.Column('payload', sa.JSON(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('attempts', sa.Integer(), nullable=False),
    sa.Column('next_at', db.types.UtcTime(timezone=True), nullable=True),
    sa.Column('claimed_until', db.types.UtcTime(timezone=True), nullable=True),
    sa.Column('last_status', sa.Integer(), nullable=True),
    sa.Column('last_error', sa.Text(), nullable=False),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.Column('finished_at', db.types.UtcTime(timezone=True), nullable=True),
    sa.CheckConstraint("state IN ('waiting', 'failed', 'delivered', 'given up')", name=op.f('ck_webhook_delivery_state')),
    sa.ForeignKeyConstraint(['webhook_id'], ['webhook.id'], name=op.f('fk_webhook_delivery_webhook_id_webhook'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_webhook_delivery')),
    sa.UniqueConstraint('webhook_id', 'message_id', name=op.f('uq_webhook_delivery_webhook_id_message_id'))
    )
    with op.batch_alter_table('webhook_delivery', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_webhook_delivery_created_at'), ['created_at'], unique=False)
        batch_op.create_index('ix_webhook_delivery_due', ['state', 'next_at'], unique=False)
        batch_op.create_index(batch_op.f('ix_webhook_delivery_webhook_id'), ['webhook_id'], unique=False)


def downgrade() -> None:
    with op.batch_alter_table('webhook_delivery', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_webhook_delivery_webhook_id'))
        batch_op.drop_index('ix_webhook_delivery_due')
        batch_op.drop_index(batch_op.f('ix_webhook_delivery_created_at'))

    op.drop_table('webhook_delivery')
    with op.batch_alter_table('webhook', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_webhook_campaign_id'))

    op.drop_table('webhook')
