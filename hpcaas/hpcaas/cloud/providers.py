"""The provider whose files are written: which of its tools makes a Slurm cluster, what that reads,
and what only the user knows. A provider stands here only if its own tool reads the files, which
`make test-cloud` tries without a network."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BadInput
from ..prices import PriceRow


@dataclass(frozen=True)
class Provider:
    name: str  # as in price catalogues
    title: str
    tool: str
    files: tuple[str, ...]  # templates under templates/NAME, and the names of what is written
    # Where Slurm's daemons and the suite's planning run: of the compute nodes' architecture.
    head_shape: str
    arm_head_shape: str
    # variables of the templates that nobody but the user knows, with what they are
    account: dict[str, str]
    user: str  # who logs in on the head node
    shared: str  # directory that head and compute nodes share
    partition: str
    # Minutes from the create command to the first job, and to delete. Providers promise nothing:
    # these are round and on the long side.
    setup_min: float
    teardown_min: float
    source: str  # where the schema of the files is documented

    def head_for(self, row: PriceRow) -> str:
        arm = "Graviton" in (row.processor or "")
        return self.arm_head_shape if arm else self.head_shape


PROVIDERS = {
    p.name: p
    for p in (
        Provider(
            "aws",
            "AWS ParallelCluster",
            "pcluster",
            ("cluster.yaml",),
            "c6a.xlarge",
            "c7g.xlarge",
            {
                "subnet_id": "subnet-... in the availability zone that has the shape",
                "key_name": "name of an EC2 key pair",
            },
            "ec2-user",
            "/shared",
            "compute",
            15,
            10,
            "https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html",
        ),
    )
}


def provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise BadInput(f"there is no provider '{name}'", f"use one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]
