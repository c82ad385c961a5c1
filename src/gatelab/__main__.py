"""`python -m gatelab` is the command `gatelab`."""

from gatelab.cli import main

if __name__ == "__main__":
    main()
