"""order of the queue by strategies, and automatic turns"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0006'
down_revision = '0005'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('turn',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('campaign_id', sa.Integer(), nullable=False),
    sa.Column('run_id', sa.Integer(), nullable=True),
    sa.Column('strategy', sa.Text(), nullable=False),
    sa.Column('automatic', sa.Boolean(), nullable=False),
    sa.Column('gold', sa.Integer(), nullable=False),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('scored', sa.Integer(), nullable=True),
    sa.Column('ordered', sa.Integer(), nullable=True),
    sa.Column('seconds', sa.Double(), nullable=True),
    sa.Column('notes', sa.JSON(), nullable=False),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.Column('finished_at', db.types.UtcTime(timezone=True), nullable=True),
    sa.CheckConstraint("state IN ('queued', 'running', 'done', 'failed', 'cancelled')", name=op.f('ck_turn_state')),
    sa.ForeignKeyConstraint(['campaign_id'], ['campaign.id'], name=op.f('fk_turn_campaign_id_campaign'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['run_id'], ['run.id'], name=op.f('fk_turn_run_id_run'), ondelete='SET NULL'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_turn'))
    )
    with op.batch_alter_table('turn', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_turn_campaign_id'), ['campaign_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_turn_run_id'), ['run_id'], unique=False)

    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.add_column(sa.Column('strategy', sa.Text(), server_default='', nullable=False))
        batch_op.add_column(sa.Column('random_share', sa.Double(), server_default='0.2', nullable=False))
        batch_op.add_column(sa.Column('retrain_every', sa.Integer(), server_default='0', nullable=False))
        batch_op.add_column(sa.Column('turn_recipe', sa.JSON(), server_default='{}', nullable=False))

    with op.batch_alter_table('sentence', schema=None) as batch_op:
        batch_op.add_column(sa.Column('chosen_by', sa.Text(), nullable=True))
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study', 'second_look', 'turn')")


def downgrade() -> None:
    op.execute("DELETE FROM job WHERE kind = 'turn'")
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study', 'second_look')")
    with op.batch_alter_table('sentence', schema=None) as batch_op:
        batch_op.drop_column('chosen_by')

    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.drop_column('turn_recipe')
        batch_op.drop_column('retrain_every')
        batch_op.drop_column('random_share')
        batch_op.drop_column('strategy')

    with op.batch_alter_table('turn', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_turn_run_id'))
        batch_op.drop_index(batch_op.f('ix_turn_campaign_id'))

    op.drop_table('turn')


def _allow(kinds: str) -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_job_kind'), type_='check')
        batch_op.create_check_constraint(batch_op.f('ck_job_kind'), kinds)
