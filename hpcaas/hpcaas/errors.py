"""Errors that a user can act upon: what failed, with which value, and the remedy."""


class HpcaasError(Exception):
    """Base of everything that ends a command with a message instead of a traceback."""

    def __init__(self, what: str, remedy: str = ""):
        self.what = what
        self.remedy = remedy
        super().__init__(f"{what}. Remedy: {remedy}" if remedy else what)


class Missing(HpcaasError):
    """Something that is not installed; the remedy is the one command or page that would bring
    it."""


class BadInput(HpcaasError):
    """A file or an option with a value that cannot be meant."""


class Busy(HpcaasError):
    """Another measurement runs on this machine."""


class Noisy(HpcaasError):
    """The machine is too noisy to measure and the user asked to refuse."""


class NoSpace(HpcaasError):
    """The disk is full or about to be."""
