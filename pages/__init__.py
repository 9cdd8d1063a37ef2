"""The screens: widgets, one workbench call, display."""
