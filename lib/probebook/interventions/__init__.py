"""Interventions: edits of hidden states that erase a property or set it to a wanted value.

`fit(h, z)` learns an edit once, `.at(...)` selects its strength, and the edit is called on states.
INLP, RLACE and LEACE erase, and so does QLEACE, which needs the labels of the states that it
edits; AlterRep, the steering edits MeanShift, AffineSteering and SparseFeatures, the interchange
DAS, and the attacks FGSM, PGD and AutoAttack take a target `to`. MatchedDirection, MatchedSubspace
and a fit on `shuffled` labels are their negative controls.
`serialization` writes any fitted edit or probe to one file, `export` steering vectors for llama.cpp
and others.

    h_edited = AlterRep(max_rank=8).fit(h, z).at(alpha=4.0)(h, to=1 - z)
"""

from probebook.interventions.affine_steering import AffineSteering
from probebook.interventions.alterrep import AlterRep
from probebook.interventions.autoattack import AutoAttack
from probebook.interventions.controls import MatchedDirection, MatchedSubspace, shuffled
from probebook.interventions.das import DAS
from probebook.interventions.fgsm import FGSM
from probebook.interventions.inlp import INLP
from probebook.interventions.leace import LEACE
from probebook.interventions.mean_shift import MeanShift
from probebook.interventions.pgd import PGD
from probebook.interventions.qleace import QLEACE
from probebook.interventions.rlace import RLACE
from probebook.interventions.sparse_autoencoder import SparseAutoencoder
from probebook.interventions.sparse_features import SparseFeatures
