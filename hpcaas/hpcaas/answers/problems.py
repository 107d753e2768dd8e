"""What was computed: only runs of one problem are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

from ..model import Configuration, ResultSet, Sample

OWN_CODE = "own code"  # version of an application that is part of this suite
OfSample = Callable[[Sample, ResultSet], "Problem"]


@dataclass(frozen=True)
class Problem:
    app: str
    size: str
    version: str = ""  # of the application; of one that is built here, with the hash of its source
    input: str = ""  # hash of what is computed; empty: nobody said

    def beyond(self, others: Sequence["Problem"]) -> str:
        """Words that tell it from others of its application and size; empty where it is alone."""
        parts = []
        if len({o.version for o in others}) > 1:
            parts.append(f"version {self.version or 'unknown'}")
        if len({o.input for o in others}) > 1:
            parts.append(f"input {self.input or 'unknown'}")
        return "".join(f", {part}" for part in parts)

    def against(self, other: "Problem") -> str:
        """In what two problems of one configuration differ, in words; empty if in nothing."""
        if self.input != other.input:
            return f"the inputs differ ({self.input or 'unknown'} and {other.input or 'unknown'})"
        if self.version != other.version:
            mine, theirs = self.version or "unknown", other.version or "unknown"
            return f"the versions differ ({mine} and {theirs})"
        return ""


def _version(said: dict[str, Any]) -> str:
    """Of what is built here from its own source, with that source. A library that is rebuilt for an
    installed application, as OpenFOAM's for another MPI, makes no other version of it."""
    source = said.get("source_hash")
    version = str(said.get("app_version") or "")
    own = version in ("", OWN_CODE) or version.endswith((".yaml", ".yml"))
    return f"{version} {source}".strip() if source and own else version


def _decomposition(config: Configuration) -> tuple[Any, ...]:
    """What may make the files of one problem other files: each number of ranks has its own
    decomposition, each installation its own preparation."""
    return (
        config.app, config.size, config.ranks, config.threads, config.nodes, config.ranks_per_node,
        config.installation,
    )  # fmt: skip


def problems(sets: Sequence[ResultSet]) -> OfSample:
    """How to tell what a sample of these sets computed.

    Results say it by `problem` in their provenance. Older ones have only the hash of a run's own
    files, which differs between decompositions of one mesh: there inputs differ where one
    decomposition has several hashes.
    """
    names: dict[str, str] = {}  # hash of a run's own files -> problem, where some file says both
    hashes: dict[tuple[Any, ...], set[str]] = {}
    for results in sets:
        for said in results.provenance.values():
            if said.get("problem") and said.get("input_hash"):
                names[str(said["input_hash"])] = str(said["problem"])
        for sample in results.samples:
            said = results.provenance.get(sample.provenance or "", {})
            if said.get("input_hash") and not said.get("problem"):
                key = (_decomposition(sample.configuration), _version(said))
                hashes.setdefault(key, set()).add(str(said["input_hash"]))
    several = {(parts[:2], version) for (parts, version), found in hashes.items() if len(found) > 1}

    def of(sample: Sample, results: ResultSet) -> Problem:
        config = sample.configuration
        said = results.provenance.get(sample.provenance or "", {})
        own, version = str(said.get("input_hash") or ""), _version(said)
        known = str(said.get("problem") or names.get(own, ""))
        if not known and ((config.app, config.size), version) in several:
            known = own
        return Problem(config.app, config.size, version, known)

    return of
