"""Plots that only the pages of one chapter use; `probebook.figures` has those of several."""
