"""simulated campaigns on a campaign's gold"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0007'
down_revision = '0006'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('simulation',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('job_id', sa.Integer(), nullable=False),
    sa.Column('snapshot_id', sa.Integer(), nullable=False),
    sa.Column('settings', sa.JSON(), nullable=False),
    sa.Column('points', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['job_id'], ['job.id'], name=op.f('fk_simulation_job_id_job'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['snapshot_id'], ['snapshot.id'], name=op.f('fk_simulation_snapshot_id_snapshot'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_simulation'))
    )
    with op.batch_alter_table('simulation', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_simulation_job_id'), ['job_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_simulation_snapshot_id'), ['snapshot_id'], unique=False)
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study', 'second_look', 'turn', 'simulation')")


def downgrade() -> None:
    op.execute("DELETE FROM job WHERE kind = 'simulation'")
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study', 'second_look', 'turn')")
    with op.batch_alter_table('simulation', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_simulation_snapshot_id'))
        batch_op.drop_index(batch_op.f('ix_simulation_job_id'))

    op.drop_table('simulation')


def _allow(kinds: str) -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_job_kind'), type_='check')
        batch_op.create_check_constraint(batch_op.f('ck_job_kind'), kinds)
