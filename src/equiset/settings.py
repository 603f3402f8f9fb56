"""The base of every typed settings class: unknown keys are refused, values never change."""

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Settings that come from `config.yaml`. A key that no field names is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)
