"""tokens of the API and what it answered to requests with a key"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import db.types

revision = '0023'
down_revision = '0022'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('api_token',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('user_id', sa.Integer(), nullable=False),
    sa.Column('name', sa.Text(), nullable=False),
    sa.Column('secret_hash', sa.Text(), nullable=False),
    sa.Column('scope', sa.Text(), nullable=False),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.Column('expires_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.Column('revoked_at', db.types.UtcTime(timezone=True), nullable=True),
    sa.Column('last_used_at', db.types.UtcTime(timezone=True), nullable=True),
    sa.CheckConstraint("scope IN ('read', 'write', 'train')", name=op.f('ck_api_token_scope')),
    sa.ForeignKeyConstraint(['user_id'], ['user_account.id'], name=op.f('fk_api_token_user_id_user_account'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_api_token')),
    sa.UniqueConstraint('secret_hash', name=op.f('uq_api_token_secret_hash'))
    )
    with op.batch_alter_table('api_token', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_api_token_user_id'), ['user_id'], unique=False)

    op.create_table('api_reply',
    sa.Column('id', sa.Integer(), nullable=False),
    sa.Column('token_id', sa.Integer(), nullable=False),
    sa.Column('key', sa.Text(), nullable=False),
    sa.Column('request_hash', sa.Text(), nullable=False),
    sa.Column('status', sa.Integer(), nullable=True),
    sa.Column('body', sa.Text(), nullable=False),
    sa.Column('created_at', db.types.UtcTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['token_id'], ['api_token.id'], name=op.f('fk_api_reply_token_id_api_token'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_api_reply')),
    sa.UniqueConstraint('token_id', 'key', name=op.f('uq_api_reply_token_id_key'))
    )
    with op.batch_alter_table('api_reply', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_api_reply_created_at'), ['created_at'], unique=False)
        batch_op.create_index(batch_op.f('ix_api_reply_token_id'), ['token_id'], unique=False)



def downgrade() -> None:
    with op.batch_alter_table('api_reply', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_api_reply_token_id'))
        batch_op.drop_index(batch_op.f('ix_api_reply_created_at'))

    op.drop_table('api_reply')
    with op.batch_alter_table('api_token', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_api_token_user_id'))

    op.drop_table('api_token')
