"""`python -m veldt`."""

from veldt.cli.guard import main

if __name__ == "__main__":
    main()
