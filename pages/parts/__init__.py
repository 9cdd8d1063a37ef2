"""Parts of the pages, a package a section."""
