"""`python -m torchcalyx`: the command line."""

from torchcalyx.cli import main

main()
