"""Tools around the worker: files, labels and evaluation, feeds, Spark, the demo, and commands for topics.

Nothing outside this package imports it. The command line finds the commands of tools by name, when they are run.
"""
