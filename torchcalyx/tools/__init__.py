"""The world outside Python: finding, installing and running programs, and the cache of what they made."""
