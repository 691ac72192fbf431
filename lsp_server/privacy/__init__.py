"""What must never be used: secret files, ignored files, secrets inside other texts."""
