"""`python -m shadow` is `shadow`."""

from shadow.cli.entry import main

if __name__ == "__main__":
    main()
