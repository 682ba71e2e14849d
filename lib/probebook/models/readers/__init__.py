"""Readers answer questions about a story, as in Chaturvedi et al. (2024, § 4.2).

`reader.py` trains one on any table of questions, `fitted_reader.py` asks it, `network.py` joins an
encoder and the heads of `heads.py`, and `windows.py` cuts long stories. Only the tables distinguish
the paper's regimes: OT has whole stories, IBT also stories after an intervention.

    Reader("pocket-english").fit(table)(table).said
"""

from probebook.models.readers.fitted_reader import FittedReader
from probebook.models.readers.network import Network
from probebook.models.readers.reader import Reader, load_reader
