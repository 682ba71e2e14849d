"""Checks of the exercises: one module for each chapter, and `expect` with what all of them use.

A page imports its chapter's module and hands over the student's answer. A right answer prints a
tick; any other raises `NotRight`, whose one line tells the student what to look at:

    from probebook.labs.checks import causal_probing as check
    check.largest_distance(largest_distance)        # ✓ largest_distance
"""
