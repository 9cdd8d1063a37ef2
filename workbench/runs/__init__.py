"""Training from the app: runs, rounds, encoders, studies, simulated campaigns."""
