"""Which sentences of a pool are worth annotating next: one acquisition function per file."""
