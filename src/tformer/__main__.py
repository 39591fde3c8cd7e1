"""`python -m tformer` is `tformer`."""

from tformer.cli import main

main()
