"""jobs that begin after another one"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0008'
down_revision = '0007'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.add_column(sa.Column('after_id', sa.Integer(), nullable=True))
        batch_op.create_foreign_key(batch_op.f('fk_job_after_id_job'), 'job', ['after_id'], ['id'], ondelete='SET NULL')
        batch_op.create_index(batch_op.f('ix_job_after_id'), ['after_id'], unique=False)


def downgrade() -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_job_after_id'))
        batch_op.drop_constraint(batch_op.f('fk_job_after_id_job'), type_='foreignkey')
        batch_op.drop_column('after_id')
