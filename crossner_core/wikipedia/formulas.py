"""Formulas that can be written as plain text: letters, signs, one level of indices."""

from __future__ import annotations

import re

from crossner_core.wikipedia.markup import MISSING, names, protected

_SYMBOLS = dict(
    pair.split("=")
    for pair in sorted(
        names(
            "alpha=α beta=β gamma=γ delta=δ epsilon=ε varepsilon=ε zeta=ζ eta=η theta=θ iota=ι kappa=κ lambda=λ mu=μ "
            "nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ phi=φ varphi=φ chi=χ psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ "
            "Xi=Ξ Pi=Π Sigma=Σ Phi=Φ Psi=Ψ Omega=Ω times=× cdot=· le=≤ leq=≤ ge=≥ geq=≥ ne=≠ neq=≠ approx=≈ equiv=≡ "
            "pm=± infty=∞ to=→ rightarrow=→ in=∈ notin=∉ subset=⊂ subseteq=⊆ cup=∪ cap=∩ forall=∀ exists=∃ neg=¬ "
            "lnot=¬ land=∧ wedge=∧ lor=∨ vee=∨ ldots=… dots=… dotsc=… dotsb=… cdots=… "
            "degree=° circ=° partial=∂ nabla=∇ "
            "ell=ℓ sum=∑ log=log ln=ln exp=exp sin=sin cos=cos tan=tan max=max min=min sim=∼ propto=∝ "
            "prime=′ ast=* hbar=ħ"
        )
    )
)
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_FONT = re.compile(r"\\(?:math(?:rm|bf|it|cal|bb)|text(?:rm|it)?|operatorname|mbox)\s*\{([^{}\\]*)\}")
_SPACE = re.compile(r"\\[,;:! ]|\\q?quad(?![A-Za-z])|\\(?:displaystyle|textstyle|left|right)(?![A-Za-z])|~")
_INDEX = re.compile(r"([_^])\{([\w+−-]{1,8})\}")
_PLAIN = re.compile(r"[^\\{}$&#%\n]{1,60}")


def formula(text: str) -> str:
    """Write a formula as text where that is plain to read; MISSING stands for any other."""
    plain = _SPACE.sub(" ", text.strip())
    plain = _FONT.sub(r"\1", plain)
    plain = _COMMAND.sub(lambda match: _SYMBOLS.get(match[1], match[0]), plain)
    plain = " ".join(_INDEX.sub(r"\1\2", plain).split())
    return protected(plain) if _PLAIN.fullmatch(plain) else MISSING
