//! Error bounds for sums of floats.
//!
//! Let u be the unit roundoff, and let an element take part in at most d additions. Each addition
//! multiplies its result by 1 + δ with |δ| ≤ u, so that the error of the sum is at most γ · Σ|x|, where
//! 1 + γ bounds a product of d such factors.
//!
//! - *In the worst case*, where all δ have the same sign, γ = d·u / (1 - d·u), for d·u < 1 (Higham,
//!   *Accuracy and Stability of Numerical Algorithms*, 2nd edition, section 4.2).
//! - *For elements drawn at random*, whose δ are mean-independent of each other with mean 0, γ =
//!   exp(λ·√d·u + d·u²/(1 - u)) - 1, which is λ·√d·u up to higher-order terms (Higham and Mary, *A New
//!   Approach to Probabilistic Rounding Error Analysis*, SIAM J. Sci. Comput. 41, 2019). A computed sum
//!   is a martingale over the additions, with steps of at most u times the partial sums sₖ, so that
//!   Azuma's inequality gives |error| ≤ λ·u·√(Σsₖ²) to first order; and Σsₖ² ≤ max|sₖ| · Σ|sₖ| ≤
//!   d·(Σ|x|)², because Σ|sₖ| counts each |x| at most d times (Hallman and Ipsen, *Precision-aware
//!   Deterministic and Probabilistic Error Bounds for Floating Point Summation*, Numer. Math. 155, 2023,
//!   for any tree). A correct kernel exceeds the bound with a probability of at most 2·exp(-λ²/2), for
//!   any n.
//!
//! The second bound holds while elements are not absorbed: at d·u = 1 a chain of additions is so long
//! that the last place of its sum is as large as an element, and from there on all errors have the same
//! sign. Beyond it nothing is claimed, and the bound is infinite.

/// λ: a correct result exceeds the bound with a probability of at most 2·exp(-λ²/2) = 2.6·10⁻¹⁴.
pub const DEVIATIONS: f64 = 8.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ErrorUnit {
    /// The unit roundoff; 0 if every order of additions is exact.
    pub(super) roundoff: f64,
    pub(super) absolute_sum: f64,
    /// The largest total loss of all squares by underflow.
    pub(super) underflow: f64,
}

impl ErrorUnit {
    pub(super) fn bound(self, depth: u64, drawn: bool) -> f64 {
        let worst = worst_growth(depth, self.roundoff);
        let growth = if drawn { worst.min(probabilistic_growth(depth, self.roundoff)) } else { worst };
        let lost = self.absolute_sum + self.underflow;
        // Infinity times 0 would be NaN.
        if growth.is_finite() { growth * lost + self.underflow } else { f64::INFINITY }
    }
}

/// Returns the worst-case [γ](self): `depth` · u / (1 - `depth` · u), where u is the roundoff.
pub fn worst_growth(depth: u64, roundoff: f64) -> f64 {
    let growth = depth as f64 * roundoff;
    if growth >= 1.0 { f64::INFINITY } else { growth / (1.0 - growth) }
}

/// Returns [γ](self) for elements drawn at random.
pub fn probabilistic_growth(depth: u64, roundoff: f64) -> f64 {
    let depth = depth as f64;
    if depth * roundoff > 1.0 {
        return f64::INFINITY;
    }
    let second_order = depth * roundoff * roundoff / (1.0 - roundoff);
    (DEVIATIONS * depth.sqrt() * roundoff + second_order).exp_m1()
}
