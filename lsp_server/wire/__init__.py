"""The connection: frames, JSON-RPC, the states of the protocol, and the life of the process."""
