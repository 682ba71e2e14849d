"""Labs: exercises with checks, students' notebooks without solutions, and grading.

`exercises` reads the exercises of a page, `student` writes its student edition, `people` reads
class lists, `expect` says what is wrong with an answer, `hand_ins` reads what was handed in, and
`grade` runs the checks of many submissions, each in its own sandbox:

    probebook lab student OUT 1_causal_probing/03; probebook lab grade SUBMISSIONS
"""
