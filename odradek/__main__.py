"""`python -m odradek`: the command line."""

from odradek.cli import main

if __name__ == "__main__":
    main(prog_name="odradek")
