"""Primitives that change reductions: what they start from, their parts, what follows them."""
