"""What can only be seen on a GPU."""
