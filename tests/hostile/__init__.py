"""Hostile uses of the compiler as tables of cases: each is right, or refused by an error that names why."""
