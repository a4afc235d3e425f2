"""The command line: `odradek`, and `python -m odradek`."""

from odradek.early_signals import end_at_signals


def main() -> None:
    """Run it."""
    end_at_signals()
    from odradek.cli import main as program  # takes a while

    program(prog_name="odradek")


if __name__ == "__main__":
    main()
