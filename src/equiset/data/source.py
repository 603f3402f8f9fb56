"""What the settings of all data sets have in common: where their files come from."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from equiset.config.settings import Settings


def _is_address(mirror: str) -> str:
    if not mirror.startswith(("https://", "http://")):
        raise ValueError(f"{mirror!r} is not an address that begins with https://")
    return mirror


Address = Annotated[str, AfterValidator(_is_address)]
"""Where something is downloaded from."""
Kind = Literal["whole", "part", "own", "stand-in"]
"""Whose data these are: the paper's, `whole` or `part`; someone's `own`; or a `stand-in`, generated in their place."""


class StandIn(Settings):
    """How much of a stand-in to make. Each data set adds its numbers."""

    seed: int = Field(0, ge=0)
    """Seed of all that is random in it."""


class SourceSettings(Settings):
    """Where a data set comes from. Each one adds its mirrors, its stand-in, and what else it needs."""

    name: ClassVar[str]
    """Its key under `datasets`."""
    holds: ClassVar[str]
    """What a user's folder holds, for messages."""
    bringing: ClassVar[frozenset[str]] = frozenset({"mirrors", "image_mirrors", "timeout_s", "attempts"})
    """The fields that say how files are brought here, and not which: what is done is not repeated when they change."""
    choosing: ClassVar[frozenset[str]] = frozenset({"source", "folder", "stand_in"})
    """The fields that say which raw files to take. `prepare` knows these by the manifest."""
    preparing: ClassVar[frozenset[str]] = frozenset()
    """The fields that `fetch` does not look at."""
    endings: ClassVar[tuple[str, ...]]
    """Of a user's folder, the files with these endings are raw data; when one changes, the data are fetched again."""
    depth: ClassVar[int]
    """How many levels of a user's folder may hold them."""

    source: Literal["download", "folder", "stand-in"] = "download"
    """`download`: the mirrors; `folder`: your own files; `stand-in`: generated, without any network."""
    folder: str | None = None
    """With `source: folder`, where your files are."""
    timeout_s: float = Field(30.0, gt=0)
    """Seconds that a server may be silent before it counts as out of reach."""
    attempts: int = Field(3, ge=1)
    """Attempts in a row at one mirror."""

    @model_validator(mode="after")
    def _has_folder(self) -> "SourceSettings":
        if self.source == "folder" and not self.folder:
            raise ValueError(f"source is 'folder', so datasets.{self.name}.folder must name the folder of {self.holds}")
        return self
