"""What a selection rule sees of the graph and what it adds to the selection: views, places, calls.

Lies below `match` and `rules`.
"""
