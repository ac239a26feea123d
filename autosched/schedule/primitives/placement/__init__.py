"""Primitives that change where a block is computed."""
