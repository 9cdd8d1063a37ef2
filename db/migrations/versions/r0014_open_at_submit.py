"""what a submit does with suggestions that nobody has decided, and from where they may be accepted unseen"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0014'
down_revision = '0013'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.add_column(sa.Column('open_at_submit', sa.Text(), server_default='ask', nullable=False))
        batch_op.add_column(sa.Column('accept_from', sa.Double(), server_default='0.8', nullable=False))


def downgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.drop_column('accept_from')
        batch_op.drop_column('open_at_submit')
