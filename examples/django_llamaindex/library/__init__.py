"""A library's help desk: Django in front of a LlamaIndex query engine."""
