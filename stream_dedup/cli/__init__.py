"""The command line: parse, call, print. Nothing is decided here.

A command module imports at its top only what its options and printing need: click, `cli.common`. What the work
needs is imported in the function that uses it, and by type checkers. So help is fast, and no command loads what only
another one needs; tests/cli/test_lazy.py holds all commands to this.
"""
