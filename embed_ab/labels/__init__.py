"""Documents that nobody judged: which matter, a file to judge them in, a model as judge."""
