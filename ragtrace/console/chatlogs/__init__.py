"""The store of sampled chat logs.

Needs the extra `store`. It imports records and evaluation, but not the running pipeline, the review or the console."""
