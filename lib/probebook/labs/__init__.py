"""Labs: the exercises' checks, the students' edition of the pages, and the grading of what comes back."""
