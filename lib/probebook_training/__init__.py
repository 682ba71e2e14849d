"""How the shipped models were trained: one recipe for each, run by `probebook models train`."""
