"""A kernel that imports this at its start has the card.

With CARD_HOLDS=states in the environment, states of any size are put there, not only large ones."""

import os

from simulated_card import CARD_TOO, card

from probebook import base

HERE = card()  # kept, since the card is gone with it
HERE.__enter__()
base.DEVICE = CARD_TOO
if os.environ.get("CARD_HOLDS") == "states":
    from probebook import devices

    devices.WORTH = 0
