"""a second look at gold: its findings with the decisions about them, and its kind of job"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0004'
down_revision = '0003'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('second_look_finding',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('campaign_id', sa.Integer(), nullable=False),
    sa.Column('sentence_id', sa.Integer(), nullable=False),
    sa.Column('found_by', sa.Text(), nullable=False),
    sa.Column('kind', sa.Text(), nullable=False),
    sa.Column('start', sa.Integer(), nullable=False),
    sa.Column('end', sa.Integer(), nullable=False),
    sa.Column('there', sa.JSON(), nullable=False),
    sa.Column('proposed', sa.JSON(), nullable=False),
    sa.Column('score', sa.Double(), nullable=False),
    sa.Column('why', sa.Text(), nullable=False),
    sa.Column('other_id', sa.Integer(), nullable=True),
    sa.Column('other_there', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('state', sa.Text(), nullable=False),
    sa.Column('decided_by', sa.Integer(), nullable=True),
    sa.Column('decided_at', db.types.UtcTime(timezone=True), nullable=True),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.CheckConstraint('"start" >= 0 AND "end" > "start"', name=op.f('ck_second_look_finding_offsets')),
    sa.CheckConstraint("state IN ('open', 'kept', 'changed', 'reopened')", name=op.f('ck_second_look_finding_state')),
    sa.CheckConstraint('score BETWEEN 0 AND 1', name=op.f('ck_second_look_finding_score')),
    sa.CheckConstraint("(state = 'open') = (decided_at IS NULL)", name=op.f('ck_second_look_finding_decided')),
    sa.ForeignKeyConstraint(['campaign_id'], ['campaign.id'], name=op.f('fk_second_look_finding_campaign_id_campaign'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['sentence_id'], ['sentence.id'], name=op.f('fk_second_look_finding_sentence_id_sentence'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['other_id'], ['sentence.id'], name=op.f('fk_second_look_finding_other_id_sentence'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['decided_by'], ['user_account.id'], name=op.f('fk_second_look_finding_decided_by_user_account')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_second_look_finding'))
    )
    with op.batch_alter_table('second_look_finding', schema=None) as batch_op:
        batch_op.create_index('ix_second_look_finding_queue', ['campaign_id', 'found_by', 'state'], unique=False)
        batch_op.create_index(batch_op.f('ix_second_look_finding_sentence_id'), ['sentence_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_second_look_finding_other_id'), ['other_id'], unique=False)
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study', 'second_look')")


def downgrade() -> None:
    op.execute("DELETE FROM job WHERE kind = 'second_look'")
    _allow("kind IN ('run', 'preannotate', 'score_pool', 'pretrain', 'study')")
    op.drop_table('second_look_finding')


def _allow(kinds: str) -> None:
    with op.batch_alter_table('job', schema=None) as batch_op:
        batch_op.drop_constraint(batch_op.f('ck_job_kind'), type_='check')
        batch_op.create_check_constraint(batch_op.f('ck_job_kind'), kinds)
