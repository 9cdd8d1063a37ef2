"""Who may sign in, as what, and what each may do."""
