"""The language server of Foretype."""
