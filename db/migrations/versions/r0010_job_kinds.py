"""kinds of jobs are no longer listed in the store, and every job has a log"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0010'
down_revision = '0009'
branch_labels = None
depends_on = None

_KINDS = "kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study', 'second_look', 'turn', 'simulation')"


def upgrade() -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_job_kind'), type_='check')
    op.create_table('job_line',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('job_id', sa.Integer(), nullable=False),
    sa.Column('message', sa.Text(), nullable=False),
    sa.Column('at', db.types.UtcTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['job_id'], ['job.id'], name=op.f('fk_job_line_job_id_job'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_job_line'))
    )
    with op.batch_alter_table('job_line', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_job_line_job_id'), ['job_id'], unique=False)


def downgrade() -> None:
    with op.batch_alter_table('job_line', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_job_line_job_id'))
    op.drop_table('job_line')
    op.execute(f"DELETE FROM job WHERE NOT ({_KINDS})")
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.create_check_constraint(batch_op.f('ck_job_kind'), _KINDS)
