"""from which dev F1, and how much better than the one before, a new model suggests by itself"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0012'
down_revision = '0011'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.add_column(sa.Column('model_floor', sa.Double(), server_default='0.3', nullable=False))
        batch_op.add_column(sa.Column('model_gain', sa.Double(), server_default='0', nullable=False))


def downgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.drop_column('model_gain')
        batch_op.drop_column('model_floor')
