"""Work for the worker process: its kinds, its queue, and the worker itself."""
