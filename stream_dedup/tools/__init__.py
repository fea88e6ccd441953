"""Tools around the worker: the Python interface, the status page, surveys, files, evaluation, feeds, Spark, the demo,
commands.

Nothing outside this package imports it. The front page, the command line and `run` load what they need of it by name.
"""
