"""Publishing: what turns runs into a book, its PDF, and the cards of the shipped models.

`build` runs the pages and builds the book, `html` calls Sphinx, `pdf` prints chapters, `findings`
and `syllabus` write tables for the book's own pages, `cards` describes the models:

    probebook build --profile pocket; probebook pdf; probebook models card pocket-english
"""
