"""Measures of the papers: pure functions on arrays, one value an item."""
