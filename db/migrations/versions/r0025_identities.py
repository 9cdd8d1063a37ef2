"""identities at a sign-in provider and the sessions it opened"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0025'
down_revision = '0024'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('identity',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('user_id', sa.Integer(), nullable=False),
    sa.Column('issuer', sa.Text(), nullable=False),
    sa.Column('subject', sa.Text(), nullable=False),
    sa.Column('shown_as', sa.Text(), nullable=False),
    sa.Column('waits_since', db.types.UtcTime(timezone=True), nullable=True),
    sa.Column('role_by_groups', sa.Boolean(), nullable=False),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['user_id'], ['user_account.id'], name=op.f('fk_identity_user_id_user_account'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_identity')),
    sa.UniqueConstraint('issuer', 'subject', name=op.f('uq_identity_issuer_subject'))
    )
    with op.batch_alter_table('identity', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_identity_user_id'), ['user_id'], unique=False)

    op.create_table('provider_session',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('login_session_id', sa.Integer(), nullable=False),
    sa.Column('identity_id', sa.Integer(), nullable=False),
    sa.Column('sid', sa.Text(), nullable=False),
    sa.Column('id_token', sa.Text(), nullable=False),
    sa.ForeignKeyConstraint(['identity_id'], ['identity.id'], name=op.f('fk_provider_session_identity_id_identity'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['login_session_id'], ['login_session.id'], name=op.f('fk_provider_session_login_session_id_login_session'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_provider_session')),
    sa.UniqueConstraint('login_session_id', name=op.f('uq_provider_session_login_session_id'))
    )
    with op.batch_alter_table('provider_session', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_provider_session_identity_id'), ['identity_id'], unique=False)
        batch_op.create_index(batch_op.f('ix_provider_session_sid'), ['sid'], unique=False)


def downgrade() -> None:
    with op.batch_alter_table('provider_session', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_provider_session_sid'))
        batch_op.drop_index(batch_op.f('ix_provider_session_identity_id'))

    op.drop_table('provider_session')
    with op.batch_alter_table('identity', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_identity_user_id'))

    op.drop_table('identity')
