"""The audit trail: its table and its rows."""
