"""Primitives that make a nest one block, and a block one instruction."""
