"""`python -m engine` does the same as `foretype`."""

from engine.cli import main

if __name__ == "__main__":
    main(prog_name="foretype")
