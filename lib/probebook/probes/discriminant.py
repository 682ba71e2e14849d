"""Linear discriminant analysis: a linear probe that needs sums over the states alone."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike

from probebook.base import UserError
from probebook.devices import work_device
from probebook.probes.checks import check_labels, check_states
from probebook.probes.linear import Linear
from probebook.probes.logistic_regression import ROWS
from probebook.probes.moments import Moments, moments, scales


class LinearDiscriminant(Linear):
    """The most probable class if every class is Gaussian, all with one covariance Σ.

    logits = h Wᵀ + b with W = M Σ⁻¹ and b_c = log π_c − ½ μ_cᵀ Σ⁻¹ μ_c, where the rows of M are the
    class means μ_c and π_c their shares (Hastie et al. 2009, § 4.3). Σ is the covariance
    within classes, divided by n. Unlike `LinearProbe` it can be fitted to states that do not fit in
    memory; it is the better of the two only where the classes are nearly Gaussian.

    - `ridge`: what is added to each dimension's variance, as a share of it; dimensions may depend
      on each other.

    After a fit, `weight` [k, d] and `bias` [k] are float64."""

    def __init__(self, ridge: float = 1e-10):
        if not ridge > 0:
            raise UserError(f"ridge={ridge}: what is added to the variances must be positive")
        self.ridge = ridge

    def fit(self, h: ArrayLike, z: ArrayLike) -> LinearDiscriminant:
        """Closed form from h [n, d], z [n] (any k ≥ 2). UserError for bad states or labels."""
        h = check_states(h).detach()
        z = check_labels(z, len(h), device=h.device)
        parts = zip(h.split(ROWS), z[:, None].split(ROWS))
        origin = h[:ROWS].mean(0).to(work_device(h))
        return self.fit_moments(moments(parts, int(z.max()) + 1, origin)[0])

    def fit_moments(self, moments: Moments) -> LinearDiscriminant:
        """The same closed form from sums over states that were read block by block."""
        total, cross = moments.covariances()
        shares = moments.counts / moments.counts.sum()
        means = (cross / shares).T  # from the mean of all states
        scale = scales(total, moments.mean)  # a constant dimension gets no weight
        within = (total - cross @ means) / scale / scale[:, None]
        within.diagonal().add_(self.ridge)
        scaled = torch.cholesky_solve(means.T / scale[:, None], torch.linalg.cholesky(within))
        self.weight = scaled.T / scale
        self.bias = shares.log() - (self.weight * means).sum(1) / 2 - self.weight @ moments.mean
        return self
