"""What the pages of one chapter share: sentences, states, judges, and the sweep over strengths."""
