"""The four providers: which of their tools makes a Slurm cluster, what it reads, and what only the
user knows."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BadInput


@dataclass(frozen=True)
class Provider:
    name: str  # as in price catalogues
    title: str
    tool: str
    files: tuple[str, ...]  # templates under templates/NAME, and the names of what is written
    head_shape: str  # where Slurm's daemons and the suite's planning run
    # variables of the templates that nobody but the user knows, with what they are
    account: dict[str, str]
    user: str  # who logs in on the head node
    shared: str  # directory that head and compute nodes share
    partition: str
    # Minutes from the create command to the first job, and to delete. Providers promise nothing:
    # these are round, on the long side,
    # and the measured campaign replaces them.
    setup_min: float
    teardown_min: float
    scales_down: bool  # whether idle compute nodes are given back if the machine with run.sh dies
    source: str  # where the schema of the files is documented


PROVIDERS = {
    p.name: p
    for p in (
        Provider(
            "aws",
            "AWS ParallelCluster",
            "pcluster",
            ("cluster.yaml",),
            "c6a.xlarge",
            {
                "subnet_id": "subnet-... in the availability zone that has the shape",
                "key_name": "name of an EC2 key pair",
            },
            "ec2-user",
            "/shared",
            "compute",
            15,
            10,
            True,
            "https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html",
        ),
        Provider(
            "azure",
            "Azure CycleCloud, its Slurm template",
            "cyclecloud",
            ("parameters.json",),
            "Standard_D4ads_v5",
            {
                "credentials": "name of the cloud account in CycleCloud",
                "subnet_id": "ResourceGroup/VirtualNetwork/Subnet",
            },
            "cyclecloud",
            "/shared",
            "hpc",
            20,
            10,
            True,
            "https://github.com/Azure/cyclecloud-slurm, templates/slurm.txt",
        ),
        Provider(
            "gcp",
            "Google Cluster Toolkit",
            "gcluster",
            ("blueprint.yaml",),
            "n2-standard-4",
            {"project_id": "project that pays", "zone": "zone of the region that has the shape"},
            "$USER",
            "/home",
            "compute",
            20,
            10,
            True,
            "https://github.com/GoogleCloudPlatform/cluster-toolkit, examples/hpc-slurm.yaml",
        ),
        Provider(
            "oci",
            "Oracle's HPC stack, by the Resource Manager",
            "oci",
            ("variables.json",),
            "VM.Standard.E4.Flex-4-64",
            {
                "tenancy_ocid": "ocid1.tenancy...",
                "compartment_ocid": "ocid1.compartment... that pays",
                "ad": "availability domain that has the shape",
                "ssh_key": "public key, one line",
            },
            "opc",
            "/nfs/cluster",
            "compute",
            35,
            15,
            False,
            "https://github.com/oracle-quickstart/oci-hpc, variables.tf",
        ),
    )
}


def provider(name: str) -> Provider:
    if name not in PROVIDERS:
        raise BadInput(f"there is no provider '{name}'", f"use one of {', '.join(PROVIDERS)}")
    return PROVIDERS[name]
