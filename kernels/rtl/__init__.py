"""The register-transfer layer over calyx-py: signals, cells, loops, and the pipeline of a lane's expression.

The only room that knows the builder; it imports `arith`.
"""
