"""Curated best-known schedules, one JSON-lines file per target."""
