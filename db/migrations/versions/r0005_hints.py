"""below which score a proposal is a hint, and what gold says of the sources"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0005'
down_revision = '0004'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.add_column(sa.Column('hint_below', sa.Double(), server_default='0.4', nullable=False))
        batch_op.add_column(sa.Column('source_weights', sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.drop_column('source_weights')
        batch_op.drop_column('hint_below')
