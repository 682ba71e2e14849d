"""The names that users' notebooks import, called as they are documented, from text to
reliability."""
import torch

from probebook.corpora import agreement
from probebook.interventions import FGSM, INLP, AlterRep
from probebook.measures.reliability import completeness, reliability, selectivity
from probebook.models import embed, load, patch
from probebook.probes import LinearProbe, MLPProbe


def test_text_to_reliability():
    table = agreement.generate(400, seed=0)
    assert {"text", "zc", "ze", "verb", "other_verb", "subject_flipped",
            "attractor_flipped"} <= set(table.column_names)
    model = load("pocket-agreement")
    h, z = embed(table["text"], model, layer=-1, at="[MASK]"), torch.tensor(table["zc"])
    assert h.shape == (400, 256)
    assert h.dtype == torch.float32
    rows = agreement.decorrelate(table["zc"], table["ze"])
    assert len(rows)
    assert max(rows) < 400
    probe, oracle = MLPProbe(width=16).fit(h, z), LinearProbe().fit(h, z)
    assert probe(h).shape == (400, 2)
    to = 1 - z
    edits = [INLP(max_rank=4).fit(h, z).at(rank=2)(h),
             AlterRep(max_rank=2).fit(h, z).at(alpha=4.0)(h, to=to),
             FGSM(probe).at(eps=.1)(h, to=to)]
    p = oracle(h).softmax(1)
    for edited in edits:
        p_hat = oracle(edited).softmax(1)
        c, s = completeness(p_hat, to=to), selectivity(p_hat, p)
        assert c.shape == s.shape == reliability(c, s).shape == (400,)
    assert completeness(oracle(edits[0]).softmax(1)).mean() > completeness(p).mean()
    assert patch(table["text"][:5], model, -1, "[MASK]",
                 edits[1][:5]).shape == (5, len(model.tokenizer))
