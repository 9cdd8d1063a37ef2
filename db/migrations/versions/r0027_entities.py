"""spans linked to the resources that they name, and the campaign's rule for it"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0027'
down_revision = '0026'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('annotation_span', sa.Column('entity', sa.Text(), nullable=True))
    op.add_column('campaign', sa.Column('linking', sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    op.drop_column('campaign', 'linking')
    op.drop_column('annotation_span', 'entity')
