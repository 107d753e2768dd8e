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


def from_azure(text: str) -> Seen:
    """`cyclecloud show_cluster NAME`: `NAME : state`, then nodes as `name: State  address`."""
    if re.search(r"could not find|no clusters? (were )?found|not found", text, re.I):
        return Seen(State.GONE, words=text.strip())
    head = re.search(r"^\s*scheduler:\s+(\S+)(?:\s+(\S+))?", text, re.M)
    cluster = re.search(r"^[\w.-]+ : (\S+)", text, re.M)
    if not cluster:
        raise BadInput(
            "no line `NAME : state`", "give the output of `cyclecloud show_cluster NAME`"
        )
    words = cluster.group(1).lower()
    if head and head.group(1).lower() == "failed":
        words = "failed"
    elif words == "started" and (not head or head.group(1).lower() not in ("started", "ready")):
        words = "preparing"  # the cluster is switched on, its scheduler not yet there
    state = _choose(
        words,
        {
            "started|ready": State.READY,
            "preparing|acquiring|starting|new|allocation": State.CREATING,
            "terminating|stopping": State.DELETING,
            "terminated|off|deleted": State.GONE,
            "failed|error": State.FAILED,
        },
    )
    address = head.group(2) if head and state is State.READY else None
    return Seen(state, address, words)


def from_gcp(text: str) -> Seen:
    """`gcloud compute instances list --format=json` of one deployment: gone when nothing is
    listed."""
    instances: list[dict[str, Any]] = json.loads(text)
    if not isinstance(instances, list):
        raise TypeError("not a list of instances")
    if not instances:
        return Seen(State.GONE, words="no instance")
    heads = [i for i in instances if re.search(r"-(login|controller)", i["name"])]
    # With a login node its address is the one to use; the controller may have no public one.
    heads.sort(key=lambda i: "-login" not in i["name"])
    if not heads:
        return Seen(State.DELETING, words="compute nodes without a controller")
    words = heads[0]["status"]
    state = _choose(
        words,
        {
            "RUNNING": State.READY,
            "PROVISIONING|STAGING|REPAIRING|PENDING": State.CREATING,
            "STOPPING|SUSPENDING|TERMINATED|STOPPED": State.DELETING,
        },
    )
    access = heads[0].get("networkInterfaces", [{}])[0].get("accessConfigs", [{}])
    return Seen(state, access[0].get("natIP") if access else None, words)


def from_oci(text: str) -> Seen:
    """`oci resource-manager job get` of the newest job of the stack, with the stack's outputs where
    it has some."""
    raw: dict[str, Any] = json.loads(text)["data"]
    operation, words = raw["operation"], raw["lifecycle-state"]
    table = {
        "ACCEPTED|IN_PROGRESS": State.CREATING,
        "SUCCEEDED": State.READY,
        "FAILED|CANCELED|CANCELING": State.FAILED,
    }
    if operation == "DESTROY":
        table |= {"ACCEPTED|IN_PROGRESS": State.DELETING, "SUCCEEDED": State.GONE}
    outputs = {o["output-name"]: o["output-value"] for o in raw.get("outputs", [])}
    address = outputs.get("controller") or outputs.get("bastion")
    return Seen(_choose(words, table), address, f"{operation} {words}")


PARSERS: dict[str, Callable[[str], Seen]] = {
    "aws": from_aws,
    "azure": from_azure,
    "gcp": from_gcp,
    "oci": from_oci,
}


def read_state(provider: str, text: str) -> Seen:
    if provider not in PARSERS:
        raise BadInput(f"there is no provider '{provider}'", f"use one of {', '.join(PARSERS)}")
    try:
        return PARSERS[provider](text)
    except (json.JSONDecodeError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise BadInput(
            f"this is not what {provider}'s tool says of a cluster "
            f"({type(error).__name__}: {error})",
            "give the output that `hpcaas cloud plan` writes into run.sh as describe()",
        )
