"""which campaign a person was in last"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0015'
down_revision = '0014'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('user_account', sa.Column('last_campaign_id', sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column('user_account', 'last_campaign_id')
