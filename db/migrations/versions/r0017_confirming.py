"""which spans annotator 2 confirms, whom a question asks, and spans by their text"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0017'
down_revision = '0016'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.add_column(sa.Column('confirm', sa.Text(), server_default='doubted', nullable=False))
        batch_op.add_column(sa.Column('confirm_share', sa.Double(), server_default='0.1', nullable=False))
        batch_op.add_column(sa.Column('rare_below', sa.Integer(), server_default='2', nullable=False))
        batch_op.add_column(sa.Column('doubt_below', sa.Double(), server_default='0.5', nullable=False))
    op.add_column('question', sa.Column('asks', sa.Text(), server_default='both', nullable=False))
    op.create_index('ix_annotation_span_surface', 'annotation_span', ['surface', 'id'])


def downgrade() -> None:
    op.drop_index('ix_annotation_span_surface', table_name='annotation_span')
    with op.batch_alter_table('question', schema=None) as batch_op:
        batch_op.drop_column('asks')
    with op.batch_alter_table('campaign', schema=None) as batch_op:
        batch_op.drop_column('doubt_below')
        batch_op.drop_column('rare_below')
        batch_op.drop_column('confirm_share')
        batch_op.drop_column('confirm')
