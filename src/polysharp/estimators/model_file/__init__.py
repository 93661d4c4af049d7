"""Models as JSON files."""
