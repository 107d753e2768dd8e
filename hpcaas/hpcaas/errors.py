"""Errors that a user can act upon: what failed, with which value, and the remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml


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


def read_text(path: Path, what: str, remedy: str = "name an existing text file") -> str:
    """The text of a file that the user named."""
    try:
        return path.read_text()
    except OSError as error:
        raise BadInput(f"{what} '{path}' cannot be read ({error.strerror})", remedy)
    except UnicodeDecodeError:
        raise BadInput(f"{what} '{path}' is not text", remedy)


def read_json(path: Path, what: str, remedy: str = "name a JSON file") -> Any:
    try:
        return json.loads(read_text(path, what, remedy))
    except json.JSONDecodeError as error:
        raise BadInput(f"{what} '{path}' is not JSON (line {error.lineno})", remedy)
    except RecursionError:
        raise BadInput(f"{what} '{path}' is nested too deeply", remedy)


def read_yaml(path: Path, what: str, remedy: str = "name an existing YAML file") -> Any:
    try:
        return yaml.safe_load(read_text(path, what, remedy))
    except (yaml.YAMLError, ValueError) as error:
        raise BadInput(f"{what} '{path}' is not YAML: {error}", "correct it")
    except RecursionError:
        raise BadInput(f"{what} '{path}' is nested too deeply", remedy)
