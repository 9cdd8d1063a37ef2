"""The command line, a file a group of commands; everything but typer is imported inside the commands."""
