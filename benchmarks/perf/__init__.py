"""How fast the workbench is: everything somebody waits for, beside its best peer; one command, one page."""
