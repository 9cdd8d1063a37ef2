"""what models give both sides of a finding, and every decision about it with those that were reverted"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0013'
down_revision = '0012'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('second_look_finding', schema=None) as batch_op:
        batch_op.add_column(sa.Column('proposed_probability', sa.Double(), nullable=True))
        batch_op.add_column(sa.Column('present_probability', sa.Double(), nullable=True))
        batch_op.add_column(sa.Column('history', sa.JSON(), nullable=False, server_default='[]'))


def downgrade() -> None:
    with op.batch_alter_table('second_look_finding', schema=None) as batch_op:
        batch_op.drop_column('history')
        batch_op.drop_column('present_probability')
        batch_op.drop_column('proposed_probability')
