"""The one exception that means: something outside the code is wrong, and the message says what to do."""


class EquisetError(Exception):
    """A fault that the user can mend. The message names the file or the key, and the remedy.

    Stages print it as a single line and exit with code 1; a traceback means a bug in equiset.
    """
