"""What a variant is in tables and figures. The config says it; no name is read for it."""

from equiset.config.settings import Settings


class Role(Settings):
    """The part of a variant in tables and figures. It changes no training."""

    title: str = ""
    """What it is called there; for a change, what is changed."""
    changes: str = ""
    """The variant that it is a change of; empty for a network of the paper's main results."""
    claim: str = ""
    """The claim that has the paper's value for it."""
