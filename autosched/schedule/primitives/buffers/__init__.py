"""Primitives that change buffers: copies, layouts, memories, windows."""
