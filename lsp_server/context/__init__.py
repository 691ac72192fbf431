"""The other texts a prompt may draw on: open documents, cells, related files, and word of their changes."""
