"""Real editors, driven headless with the set-ups that docs/editors.md gives. `make test-editors` runs them."""
