"""pre-training of encoders and studies as kinds of job"""

from __future__ import annotations

from alembic import op

revision = '0003'
down_revision = '0002'
branch_labels = None
depends_on = None


def upgrade() -> None:
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study')")


def downgrade() -> None:
    op.execute("DELETE FROM job WHERE kind IN ('pretrain', 'study')")
    _allow("kind IN ('run', 'preannotate', 'score_pool')")


def _allow(kinds: str) -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_job_kind'), type_='check')
        batch_op.create_check_constraint(batch_op.f('ck_job_kind'), kinds)
