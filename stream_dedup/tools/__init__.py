"""Tools around the worker: its status page, surveys, files, labels and evaluation, feeds, Spark, the demo, commands.

Nothing outside this package imports it. The front page, the command line and `run` load what they need of it by name.
"""
