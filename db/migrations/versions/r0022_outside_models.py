"""outside models that a campaign's sentences may be sent to, and what was spent there"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0022'
down_revision = '0021'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('outside_allowance',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('campaign_id', sa.Integer(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('address', sa.Text(), nullable=False),
    sa.Column('model', sa.Text(), nullable=False),
    sa.Column('is_open', sa.Boolean(), nullable=False),
    sa.Column('max_requests', sa.Integer(), nullable=False),
    sa.Column('max_tokens', sa.BigInteger(), nullable=True),
    sa.Column('max_cost', sa.Double(), nullable=True),
    sa.Column('requests', sa.Integer(), nullable=False),
    sa.Column('input_tokens', sa.BigInteger(), nullable=False),
    sa.Column('output_tokens', sa.BigInteger(), nullable=False),
    sa.Column('cost', sa.Double(), nullable=False),
    sa.Column('answered', sa.Integer(), nullable=False),
    sa.Column('unusable', sa.Integer(), nullable=False),
    sa.Column('dropped', sa.JSON(), nullable=False),
    sa.Column('allowed_by', sa.Integer(), nullable=True),
    sa.Column('allowed_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.CheckConstraint('max_requests > 0', name=op.f('ck_outside_allowance_max_requests')),
    sa.ForeignKeyConstraint(['allowed_by'], ['user_account.id'], name=op.f('fk_outside_allowance_allowed_by_user_account')),
    sa.ForeignKeyConstraint(['campaign_id'], ['campaign.id'], name=op.f('fk_outside_allowance_campaign_id_campaign'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_outside_allowance')),
    sa.UniqueConstraint('campaign_id', 'name', name=op.f('uq_outside_allowance_campaign_id_name'))
    )
    with op.batch_alter_table('outside_allowance', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_outside_allowance_campaign_id'), ['campaign_id'], unique=False)



def downgrade() -> None:
    with op.batch_alter_table('outside_allowance', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_outside_allowance_campaign_id'))

    op.drop_table('outside_allowance')
