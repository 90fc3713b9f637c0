"""What a certificate comes to, in a few plain sentences."""

from __future__ import annotations

import math

from crosslearning.certificates.certificate import Certificate


def verdicts(certificate: Certificate) -> list[str]:
    """Return what is certified and what is not, one sentence or two for each part."""
    said = [_files(certificate)]
    if certificate.constraint:
        said.append(_constraint(certificate))
    if certificate.pruning is not None:
        said.append(_pruning(certificate))
    said.append(_stationarity(certificate))
    return said


def _files(certificate: Certificate) -> str:
    failed = [check.name for check in certificate.checks if check.status == "fail"]
    impossible = [check.name for check in certificate.checks if check.status == "not possible"]
    total = len(certificate.checks)
    if failed:
        named = "; ".join(failed[:6]) + (f"; and {len(failed) - 6} more" if len(failed) > 6 else "")
        return (
            f"Files: NOT CERTIFIED. {len(failed)} of {total} checks failed: {named}. The run was "
            "damaged or edited; restore it from a copy, or train it again."
        )
    text = f"Files: certified. {total - len(impossible)} of {total} checks passed, none failed"
    if impossible:
        text += f"; not possible: {', '.join(impossible)}"
    if certificate.replayed:
        return f"{text}. Training the run again gave the same bytes."
    return f"{text}. The run was not trained again (--replay)."


def _constraint(certificate: Certificate) -> str:
    epsilon = certificate.epsilon
    binding = [line.task for line in certificate.constraint if line.binding]
    if any(c.status == "fail" for c in certificate.checks if c.topic == "constraint"):
        return f"Constraint: NOT CERTIFIED. The bound ε = {epsilon:g} does not hold."
    if epsilon == math.inf:
        return "Constraint: none was asked (ε = ∞)."
    who = (
        "the root mean square of the distances to the central policy is"
        if certificate.projection == "relaxed"
        else "every task policy is, in RKHS norm,"
    )
    held = f"back {', '.join(binding)}"
    if not binding:
        held = "nobody back: a larger ε would not have changed the last iterations"
    return f"Constraint: certified, {who} within ε = {epsilon:g}. It holds {held}."


def _pruning(certificate: Certificate) -> str:
    pruning = certificate.pruning
    assert pruning is not None
    share = pruning.certified_share
    forced = pruning.forced_by_cap + pruning.forced_by_conditioning
    if forced == 0:
        return (
            f"Pruning: certified. In every iteration every policy moved by at most the budget "
            f"{pruning.budget:g}."
        )
    held = "" if share is None else f" The budget held in {100 * share:.1f} % of the iterations."
    by = "the cap, not the budget, decides" if pruning.cap_decides else "some were forced"
    return (
        f"Pruning: NOT CERTIFIED within the budget {pruning.budget:g}; {by}: {forced} removals "
        f"broke it ({pruning.forced_by_cap} by the cap of {pruning.max_knots} knots, "
        f"{pruning.forced_by_conditioning} by conditioning), and a policy moved by up to "
        f"{pruning.largest:.3g} in one iteration.{held} A larger max_knots or a smaller step would "
        "change that."
    )


def _stationarity(certificate: Certificate) -> str:
    if certificate.left_out:
        return f"Stationarity: left out: {certificate.left_out}."
    if certificate.epsilon in (0.0, math.inf):
        return f"Stationarity: the gap says nothing for ε = {certificate.epsilon:g}."
    alpha = certificate.alpha
    if alpha is None:
        smallest = ", ".join(f"{gap.task} at {gap.gap.high:.4g}" for gap in certificate.gaps)
        return (
            "Stationarity: no alpha was asked for (--alpha). The smallest at which each task is "
            f"certified: {smallest}."
        )
    found = {gap.task: gap.verdict(alpha) for gap in certificate.gaps}
    if all(verdict == "stationary" for verdict in found.values()):
        return f"Stationarity: certified. Every task's gap is at most α = {alpha:g}."
    groups = [
        f"{word}: {', '.join(task for task, verdict in found.items() if verdict == word)}"
        for word in ("stationary", "not stationary", "undecided")
        if word in found.values()
    ]
    said = f"Stationarity: NOT CERTIFIED at α = {alpha:g} of every task: {'; '.join(groups)}."
    return f"{said} More samples (--samples) may decide." if "undecided" in found.values() else said
