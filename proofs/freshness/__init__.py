"""How long after a change readers are led right, and that they then stay right: real processes on real sockets."""
