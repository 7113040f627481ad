"""What a paper or a model card says of a run: one value, made of an account, and no sentence in it that says more."""

from noisymean.statement.registry import Deployment, registry_record, registry_schema
from noisymean.statement.value import DEFAULT_UNIT, Format, Statement, statement
from noisymean.statement.yaml_text import yaml_text

__all__ = [
    "DEFAULT_UNIT",
    "Deployment",
    "Format",
    "Statement",
    "registry_record",
    "registry_schema",
    "statement",
    "yaml_text",
]
