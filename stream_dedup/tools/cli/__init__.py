"""The commands of the tools: parse, call, print. Nothing is decided here."""
