"""The design space of a tensor program on a target."""
