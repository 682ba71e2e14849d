"""How the shipped models and data were made: `probebook models train` runs the recipes.

recipes.train("pocket-english")
"""
