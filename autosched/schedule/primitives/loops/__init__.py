"""Primitives that change loops: their number, order and kind."""
