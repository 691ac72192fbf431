"""What the client has open, exactly: texts, positions in three encodings, identities, notebooks."""
