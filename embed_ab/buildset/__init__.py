"""Documents become an evaluation set: chunks, questions about them, and judgements."""
