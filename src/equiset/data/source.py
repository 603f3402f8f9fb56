"""Where the files of a data set come from: a download, a folder of the user's own, or a generated stand-in."""

from typing import Annotated, Any, ClassVar, Literal

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
_SOURCE = frozenset({"source", "folder", "stand_in"})
_TRANSFER = frozenset({"mirrors", "image_mirrors", "timeout_s", "attempts"})


class StandIn(Settings):
    """How much of a stand-in to make. Each data set adds its numbers."""

    seed: int = Field(0, ge=0)
    """Seed of all that is random in it."""


class SourceSettings(Settings):
    """Where a data set comes from. Each one adds its mirrors, its stand-in, and how its arrays are made."""

    name: ClassVar[str]
    """Its key under `datasets`."""
    holds: ClassVar[str]
    """What a user's folder holds, for messages."""

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
        if self.source == "download" and self.folder:  # at a scale that runs on a stand-in, the folder may stay
            raise ValueError(
                f"folder is {self.folder!r}, but source is 'download': set datasets.{self.name}.source to 'folder'"
            )
        return self

    def raw(self) -> dict[str, Any]:
        """Return the settings that decide which raw files there are; those of a download are always the same."""
        used = {"source", self.source.replace("-", "_")}
        return self.model_dump(mode="json", include=used & _SOURCE)

    def arrays(self) -> dict[str, Any]:
        """Return the settings that decide which arrays are made of the raw files."""
        return self.model_dump(mode="json", exclude=set(_SOURCE | _TRANSFER))
