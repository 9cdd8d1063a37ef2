"""What can be checked of a GPU without one."""
