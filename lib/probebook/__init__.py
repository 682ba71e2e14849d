"""Probing and intervening on language models: what a page of the book calls.

Rooms, from the data up: `corpora`, `models`, `probes`, `interventions`, `explainers`, `measures`,
`experiments`, `figures`, `runs`, `labs`, `publish`.
"""

import sys

# nbformat's validator would import it, which compiles a grammar for almost a second in every
# process that reads a notebook. It is optional, and a notebook's format has no such addresses.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
