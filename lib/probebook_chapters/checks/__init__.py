"""Checks of the exercises: one module for each chapter, and `expect` with what all of them use.

A page imports its chapter's module, as `check`, and hands over the student's answer. A right answer
prints a tick; any other raises `NotRight`, whose one line tells the student what to look at:

    check.largest_distance(largest_distance)        # ✓ largest_distance

Who grades runs a check where no code of a student runs: first on the page's solution, to hear which
calls it makes, then on what the student's function gave for these calls. So a check draws a part of
its cases (`expect.draws`), makes all its calls whatever the earlier ones gave, and takes answers
that are numbers, texts, arrays or tables.
"""
