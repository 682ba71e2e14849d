"""The ten sentences that a reader of the page *Try it* may choose; the model prefers the right verb
in each."""

SENTENCES = (
    "The keys to the cabinet [MASK] on the table.",
    "The key to the cabinets [MASK] on the table.",
    "The letter from the kings [MASK] very long.",
    "The ships near the island [MASK] made of gold.",
    "The teacher of the boys [MASK] afraid of the dark.",
    "The dogs behind the house [MASK] very hungry.",
    "Everyone knows that the lamp near the windows [MASK] lost.",
    "The stories about the queen [MASK] hard to understand.",
    "The captain that the sailors saw [MASK] ready to go.",
    "The boxes on the table in the garden [MASK] very heavy.",
)
