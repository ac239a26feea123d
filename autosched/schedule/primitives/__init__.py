"""The primitives, a family per file, on shelves by what they change."""
