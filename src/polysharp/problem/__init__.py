"""The problem that every engine solves."""
