"""`python -m ottla` is the command `ottla`."""

from ottla.cli import main

if __name__ == "__main__":
    main(prog_name="ottla")
