"""sentences that an expert leaves out of what models learn from"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = '0009'
down_revision = '0008'
branch_labels = None
depends_on = None

_BEFORE = "state IN ('open', 'kept', 'changed', 'reopened')"


def upgrade() -> None:
    with op.batch_alter_table('second_look_finding', schema=None) as batch_op:
        batch_op.add_column(sa.Column('left_out_id', sa.Integer(), nullable=True))
        batch_op.create_foreign_key(batch_op.f('fk_second_look_finding_left_out_id_sentence'), 'sentence', ['left_out_id'], ['id'], ondelete='CASCADE')
        batch_op.create_index(batch_op.f('ix_second_look_finding_left_out_id'), ['left_out_id'], unique=False)
        batch_op.drop_constraint(batch_op.f('ck_second_look_finding_state'), type_='check')
        batch_op.create_check_constraint(batch_op.f('ck_second_look_finding_state'), "state IN ('open', 'kept', 'changed', 'reopened', 'left_out')")
        batch_op.create_check_constraint(batch_op.f('ck_second_look_finding_left_out'), "(state = 'left_out') = (left_out_id IS NOT NULL)")


def downgrade() -> None:
    with op.batch_alter_table('second_look_finding', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_second_look_finding_left_out'), type_='check')
        batch_op.drop_index(batch_op.f('ix_second_look_finding_left_out_id'))
        batch_op.drop_constraint(batch_op.f('fk_second_look_finding_left_out_id_sentence'), type_='foreignkey')
        batch_op.drop_column('left_out_id')
    op.execute("UPDATE second_look_finding SET state = 'kept' WHERE state = 'left_out'")
    with op.batch_alter_table('second_look_finding', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_second_look_finding_state'), type_='check')
        batch_op.create_check_constraint(batch_op.f('ck_second_look_finding_state'), _BEFORE)
