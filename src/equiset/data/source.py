"""What the settings of all data sets have in common: where their files come from."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from equiset.settings import Settings


def _is_address(mirror: str) -> str:
    if not mirror.startswith(("https://", "http://")):
        raise ValueError(f"{mirror!r} is not an address that begins with https://")
    return mirror


Address = Annotated[str, AfterValidator(_is_address)]
"""Where something is downloaded from."""


class SourceSettings(Settings):
    """Where a data set comes from. Each one adds its mirrors, its stand-in, and what else it needs."""

    name: ClassVar[str]
    """Its key under `datasets`."""
    holds: ClassVar[str]
    """What a user's folder holds, for messages."""

    source: Literal["download", "folder", "twin"] = "download"
    """`download`: the mirrors; `folder`: files that you have; `twin`: a stand-in, made without any network."""
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
