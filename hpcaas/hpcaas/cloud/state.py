"""What the providers' tools say of a cluster, in four words: creating, ready, failed, gone."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any, Callable, Optional

from ..errors import BadInput


class State(str, Enum):
    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    DELETING = "deleting"
    GONE = "gone"


@dataclass(frozen=True)
class Seen:
    state: State
    address: Optional[str] = None  # of the head node, once it is ready
    words: str = ""  # the provider's own


def _choose(words: str, table: dict[str, State]) -> State:
    found = next((state for pattern, state in table.items() if re.fullmatch(pattern, words)), None)
    if found is None:
        raise BadInput(
            f"the provider's tool says '{words}', which is none of the states known here",
            "look at the cluster in the provider's console, and delete it there if in doubt",
        )
    return found


def from_aws(text: str) -> Seen:
    """`pcluster describe-cluster`: one JSON object; of a cluster that is not there, a message."""
    raw: dict[str, Any] = json.loads(text)
    if "does not exist" in raw.get("message", ""):
        return Seen(State.GONE, words=raw["message"])
    words = raw["clusterStatus"]
    state = _choose(
        words,
        {
            "CREATE_COMPLETE|UPDATE_COMPLETE": State.READY,
            "CREATE_IN_PROGRESS|UPDATE_IN_PROGRESS": State.CREATING,
            "DELETE_IN_PROGRESS": State.DELETING,
            "DELETE_COMPLETE": State.GONE,
            ".*_FAILED": State.FAILED,
        },
    )
    head = raw.get("headNode", {})
    return Seen(state, head.get("publicIpAddress") or head.get("privateIpAddress"), words)


PARSERS: dict[str, Callable[[str], Seen]] = {"aws": from_aws}


def read_state(provider: str, text: str) -> Seen:
    if provider not in PARSERS:
        raise BadInput(f"there is no provider '{provider}'", f"use one of {', '.join(PARSERS)}")
    try:
        return PARSERS[provider](text)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(
            f"this is not what {provider}'s tool says of a cluster "
            f"({type(error).__name__}: {error})",
            "give the output that `hpcaas cloud plan` writes into run.sh as describe()",
        )
