"""`python -m veldt`."""

from veldt.cli import main

if __name__ == "__main__":
    main()
