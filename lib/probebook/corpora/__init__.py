"""Text with labels: data sets of others, and generated worlds whose structure is known.

One module per data set; each returns a pandas table whose columns its docstring lists. The words of
the generated worlds are text files in `data/corpora`. Only `fetch` touches the network.

    table = agreement.generate(2_000)        # text with [MASK], zc, ze, verb, …
"""
