"""Fast gradient sign method (Goodfellow et al. 2015; Canby et al., § 4.1) on hidden states."""
from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from probebook.base import UserError
from probebook.probes.checks import labels, states


def target_loss(logits: torch.Tensor, to: torch.Tensor) -> torch.Tensor:
    """Log-odds against the wanted class, log Σ_{c≠to} exp(zᶜ) − z_to: [n, k] → [n].

    Its gradient is the cross-entropy's divided by 1 − p_to > 0, so every sign step is the same, but it does not
    vanish for confident probes. For two classes it is the margin."""
    wanted = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, to[:, None], True)
    return logits.masked_fill(wanted, -torch.inf).logsumexp(1) - logits.gather(1, to[:, None]).squeeze(1)


@dataclass(frozen=True)
class FGSM:
    """One step of length ε in the L∞ norm towards the wanted class: h ↦ h − ε · sign ∇_h loss(probe(h), to).

    `probe`: any differentiable map from states to logits [n, k]. `FGSM(probe).at(eps=.1)(h, to=wanted)` → [n, d].
    Hidden states are not images: there is no box, ‖ĥ − h‖∞ = ε."""

    probe: object
    eps: float = .1

    def at(self, eps: float) -> FGSM:
        """The same attack with another radius ε ≥ 0."""
        if not eps >= 0:
            raise UserError(f"eps={eps}: the radius must be ≥ 0")
        return replace(self, eps=float(eps))

    def __call__(self, h, to) -> torch.Tensor:
        h = states(h).detach()
        x = h.clone().requires_grad_()
        with torch.enable_grad():
            logits = self.probe(x)
            to = labels(to, len(h), logits.shape[1], h.device)
            gradient, = torch.autograd.grad(target_loss(logits, to).sum(), x)
        return h - self.eps * gradient.sign()
