"""What primitives are made of: handles, states, traces, the registry, refusals."""
