#!/usr/bin/env python3
"""Checks the models with Spin: the protocol as the code does it must hold, and each variant without one of its rules must fail.

    lab/models/check.py [--long] [--write-trails] [MODEL ...]

--long also searches larger configurations (minutes, some GB). --write-trails keeps, for each broken variant, the run that the checker
found, in lab/models/trails/. Exit code 77 if spin or a C compiler is missing.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Per model: how pan searches, the configurations that must hold, longer ones, and the rules whose
# absence must be found: in the small configuration, or in the one named beside the rule.
MODELS = {
    "connection": {
        "search": [],  # assertions; its judge speaks when nothing moves
        "compile": ["-DSAFETY"],
        "holds": [["BREAKS=2", "CLOSES=0"], ["BREAKS=1", "CLOSES=1"]],
        "long": [["BREAKS=1", "CLOSES=2"], ["BREAKS=2", "CLOSES=1"]],
        "small": ["BREAKS=1", "CLOSES=1"],
        "broken": [
            "DUPLICATE_APPLIED",
            "RESULT_FORGOTTEN_EARLY",
            "REPORT_BEFORE_DESTROY",
            "OLD_GENERATION_ADMITTED",
            "LATE_EVENT_COUNTS",
            "BYE_UNDRAINED",
            "SEND_AFTER_BYE",
        ],
    },
    "progress": {
        "search": ["-a", "-f"],  # "everyone gets on", each thread being scheduled now and then
        "compile": ["-DNFAIR=3"],
        "holds": [[], ["NO_HELPER"]],
        "long": [],
        "small": [],
        "broken": [
            "HAND_OVER_SILENTLY",
            "LOOK_WITHOUT_MUTEX",
            "SLOT_WITHOUT_WAKE",
            "SLEEP_ON_HELD_BACK",
        ],
    },
    "flags": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [["STEPS=3"], ["MEMBERS=2", "STEPS=4"], ["SLEEP", "MEMBERS=2", "STEPS=3"]],
        "long": [["MEMBERS=2", "STEPS=5"], ["STEPS=4"], ["SLEEP", "MEMBERS=2", "STEPS=4"]],
        "small": [],
        "broken": {
            "NEXT_WAITS": ["STEPS=3"],
            "WIDE_WAITS": ["STEPS=3"],
            "POST_AFTER_READING": ["STEPS=4"],
            "POST_THEN_LOOK": ["SLEEP", "MEMBERS=2", "STEPS=3"],
            "COUNT_THEN_LOOK": ["SLEEP", "MEMBERS=2", "STEPS=3"],
        },
    },
    "fair_queue": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [
            ["LOCALS=2", "REMOTES=1", "RECORDS=1", "OTHER_LOCK"],
            ["LOCALS=1", "REMOTES=2", "RECORDS=1", "CLOSES=1"],
            ["LOCALS=1", "REMOTES=1", "TURNS=2", "CLOSES=1", "SHARERS=2"],
            ["LOCALS=2", "REMOTES=2", "RECORDS=1", "BREAKS=0", "SHARERS=6"],
        ],
        "long": [
            ["LOCALS=2", "REMOTES=2", "RECORDS=2"],
            ["LOCALS=2", "REMOTES=2", "SHARERS=5"],
            ["LOCALS=1", "REMOTES=2", "RECORDS=1", "TURNS=2", "SHARERS=6"],
        ],
        "small": ["LOCALS=1", "REMOTES=1"],
        "broken": {
            "READER_JOINS_PAST_QUEUE": ["LOCALS=2", "REMOTES=1", "SHARERS=3", "BREAKS=0"],
            "ANY_READER_HANDS_OVER": ["LOCALS=2", "REMOTES=1", "SHARERS=3", "BREAKS=0"],
            "BATCH_PAST_WRITER": ["LOCALS=2", "REMOTES=2", "SHARERS=3", "BREAKS=0"],
            "UNLOCK_IGNORES_BIT": ["LOCALS=2", "REMOTES=1", "BREAKS=0"],
            "BIT_BEFORE_RECORD": ["LOCALS=2", "REMOTES=1", "RECORDS=1", "BREAKS=0"],
            "SLEEP_WITHOUT_LIMIT": ["RECORDS=1", "BREAKS=0", "OTHER_LOCK"],
            "COUNTED_ONCE_ASLEEP": ["LOCALS=2", "REMOTES=1", "RECORDS=1", "BREAKS=0"],
            "NO_RECORD_STOPS_SESSION": ["REMOTES=2", "RECORDS=1", "BREAKS=0", "OTHER_LOCK"],
            "RANK_HANDS_OVER_UNSEEN": ["BREAKS=0"],
            "UNFENCED_UNLOCK": ["TURNS=2", "BREAKS=0"],
            "RESUME_WITHOUT_ASKING": [],
            "KEPT_HOLDS": ["SHARERS=2", "RECORDS=1", "OTHER_LOCK"],
            "GRANT_NEEDS_CONNECTION": ["BREAKS=0", "CLOSES=1"],
            "GRANT_WITHOUT_TAG": ["TURNS=2", "CLOSES=1"],
            "BREAK_WHILE_CLOSING": ["CLOSES=1"],
        },
    },
    "several_locks": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [[], ["LOCKS=3"]],
        "long": [["LOCKS=2", "SHARERS=3"], ["LOCKS=3", "SHARERS=3", "OWNERS=1"]],
        "small": [],
        "broken": ["NOBODY_JOINS", "OWNER_WANTS_ANOTHER"],
    },
    "passing": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [[], ["RANKS=4", "TURNS=1"]],
        "long": [["TURNS=3"], ["PASSES=3", "TURNS=3"]],
        "small": [],
        "broken": {
            "UNBOUNDED_PASSING": [],
            "HAND_OVER_UNSEEN": [],
            "ARMED_LATE": [],
            "REST_WITHOUT_A_LOOK": [],
            "REST_INVITED": [],
        },
    },
    "readers": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [[]],
        "long": [["READERS=3"]],
        "small": [],
        "broken": [
            "LOOK_BEFORE_FLAG",
            "WITHDRAWN_UNSEEN",
            "NO_SHARE_OF_ITS_OWN",
            "FLAG_BEFORE_COUNT",
        ],
    },
    "migrating": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [
            ["LOCALS=2", "REMOTES=1", "ANY_POLICY"],
            ["LOCALS=1", "REMOTES=2", "ANY_POLICY"],
            ["LOCALS=1", "REMOTES=1", "TURNS=2", "BREAKS=2", "ANY_POLICY"],
            ["LOCALS=1", "REMOTES=1", "LIVELY"],
            ["LOCALS=1", "REMOTES=2", "SHARERS=2", "ANY_POLICY", "BREAKS=0"],
            ["LOCALS=1", "REMOTES=2", "SHARERS=3", "BREAKS=0"],
            ["LOCALS=2", "REMOTES=1", "SHARERS=5", "BREAKS=1"],
            ["LOCALS=1", "REMOTES=1", "TURNS=2", "SHARERS=2", "ANY_POLICY"],
        ],
        "long": [
            ["LOCALS=2", "REMOTES=2"],
            ["LOCALS=2", "REMOTES=2", "ANY_POLICY"],
            ["LOCALS=1", "REMOTES=2", "BREAKS=2", "ANY_POLICY"],
            ["LOCALS=1", "REMOTES=2", "LIVELY"],
        ],
        "small": ["LOCALS=1", "REMOTES=1", "BREAKS=0"],
        "broken": {
            "MODE_LOOKED_AT_ONCE": [],
            "ONE_LOCK_ONLY": [],
            "STEP_4_AS_PRINTED": [],
            "FREED_BEFORE_MODE": [],
            "CROSSING_MIGRATES": ["REMOTES=2"],
            "UNLOCK_IN_NETWORK": ["ANY_POLICY"],
            "NETWORK_WORD_BY_CPU": ["REMOTES=2", "ANY_POLICY"],
            "REPEATED_SWAP_MISREAD": ["BREAKS=1"],
            "LOST_AGAIN_FORGOTTEN": ["REMOTES=2", "BREAKS=1"],
            "DEAF_WHILE_PAUSING": ["BREAKS=1"],
            "ANSWER_WITHOUT_TAG": ["TURNS=2", "BREAKS=1"],
            "SHARERS_UNTOLD": ["REMOTES=2", "SHARERS=2"],
            "GRANTED_UNSEEN": ["SHARERS=1"],
        },
    },
    "network_lock": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [
            ["ONE_SIDED"],
            ["TWO_SIDED", "SHARERS=3"],
            ["TWO_SIDED", "SHARERS=3", "LIVELY"],
            ["COHORT"],
            ["COHORT", "LIVELY"],
            ["ASYMMETRIC"],
            ["ASYMMETRIC", "LIVELY"],
        ],
        "long": [
            ["COHORT", "REMOTES=2"],
            ["COHORT", "HAND_OVERS=2", "TURNS=3"],
            ["ASYMMETRIC", "REMOTES=2"],
            ["ASYMMETRIC", "HAND_OVERS=2", "TURNS=3"],
        ],
        "small": ["TURNS=1"],
        "broken": {
            "FAILED_SWAP_HOLDS": ["ONE_SIDED"],
            "LOCAL_BY_CPU": ["ONE_SIDED"],
            "REPEATED_SWAP_MISREAD": ["ONE_SIDED"],
            "MANAGER_TWO_WRITERS": ["TWO_SIDED"],
            "MANAGER_FORGETS_NEXT": ["TWO_SIDED"],
            "READER_OVERTAKES": ["TWO_SIDED", "SHARERS=3", "LIVELY"],
            "LINK_NOT_AWAITED": ["COHORT"],
            "UNBOUNDED_HAND_OVER": ["COHORT", "LIVELY"],
            "RELEASED_WITHOUT_RENEWAL": ["COHORT", "TURNS=2"],
            "UNBOUNDED_QUEUE": ["ASYMMETRIC", "LIVELY"],
            "NO_VICTIM": ["ASYMMETRIC"],
            "VICTIM_BEFORE_TAIL": ["ASYMMETRIC", "TURNS=2"],
        },
    },
    "pools": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [[], ["STUBBORN"], ["STUBBORN", "ROOM=1"], ["WAITS"], ["WAITS", "ROOM=1"]],
        "long": [["STUBBORN", "ROOM=4", "REQUESTS=6"]],
        "small": [],
        "broken": ["SINGLE_POOL", "WAIT_FOR_ROOM"],
    },
    "drops": {
        "search": ["-a", "-f"],
        "compile": ["-DNFAIR=3"],
        "holds": [[], ["ROOM=1"], ["ROOM=3", "REQUESTS=4"]],
        "long": [["ROOM=4", "REQUESTS=6", "WINDOW=5"]],
        "small": ["REQUESTS=2", "WINDOW=2"],
        "broken": {
            "LOOK_BEFORE_APPLYING": [],
            "ALONE_TOO": ["ROOM=1"],
            "ANY_TIMING": ["ROOM=1", "REQUESTS=3", "WINDOW=3"],
        },
    },
    "leases": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [[]],
        "long": [],
        "small": [],
        "broken": [
            "LEASE_FROM_ANSWER",
            "NO_MARGIN",
            "FIRST_LEASE_COUNTS",
            "UNREAD_IS_SILENCE",
            "LOCKS_FIRST",
            "LATE_IS_TAKEN",
        ],
    },
    "protect": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [["STEPS=1"]],
        "long": [["STEPS=1", "DEATHS=2"]],
        "small": ["STEPS=1"],
        "broken": {
            "ONE_COPY": [],
            "NO_FENCE": [],
            "ONE_HALF": [],
            "SILENT_FAILURE": [],
            "DEAD_COUNT": [],
            "OWN_ANSWER": ["MEMBERS=4", "DEATHS=2"],
        },
    },
    "reserve": {
        "search": [],
        "compile": ["-DSAFETY"],
        "holds": [[]],
        "long": [["LIVES=6"]],
        "small": ["LIVES=3"],
        "broken": [
            "GIVE_BACK_UNMARKED",
            "TAKE_BY_STORE",
            "ID_BY_ONE",
            "READY_AFTER_EXCHANGE",
            "REVIVE_ALONE",
        ],
    },
}

# How a configuration with LIVELY is searched: does each get on, if each is scheduled now and then?
LIVELY = {"search": ["-a", "-f"], "compile": ["-DNFAIR=3"]}


def configuration(plan, rule):
    """The defines with which the absence of `rule` is found; a later one counts."""
    chosen = {define.split("=")[0]: define for define in plan["small"]}
    if isinstance(plan["broken"], dict):
        chosen |= {define.split("=")[0]: define for define in plan["broken"][rule]}
    return [*chosen.values(), rule]


def search(model, defines, shortest=False, optimize="-O0"):
    """Returns (found a mistake, states, what pan said, the run as text).

    optimize: of a search that is short beside the compiler's work, that is kept short."""
    plan = MODELS[model] if "LIVELY" not in defines else LIVELY
    shortest = shortest and "-a" not in plan["search"]  # pan shortens runs, but not cycles
    with tempfile.TemporaryDirectory() as work:
        run = lambda *command, **more: subprocess.run(
            command, cwd=work, text=True, capture_output=True, **more
        )
        shutil.copy(HERE / f"{model}.pml", work)
        flags = [f"-D{d}" for d in defines]
        made = run("spin", "-a", *flags, f"{model}.pml")
        if made.returncode != 0:
            sys.exit(f"spin -a {model}.pml: {made.stdout}{made.stderr}")
        extra = ["-DREACH"] if shortest else []
        made = run(
            compiler,
            optimize,
            "-w",
            "-DMEMLIM=6000",
            "-DCOLLAPSE",
            *extra,
            *plan["compile"],
            "-o",
            "pan",
            "pan.c",
        )
        if made.returncode != 0:
            sys.exit(f"{model}: pan does not compile: {made.stderr}")
        found = run("./pan", "-m500000", "-E", *(["-i"] if shortest else []), *plan["search"])
        said = found.stdout + found.stderr
        errors = re.search(r"errors: (\d+)", said)
        states = re.search(r"(\d+) states, stored", said)
        if (
            errors is None
            or states is None
            or errors[1] == "0"
            and ("max search depth too small" in said or "Search not completed" in said)
        ):
            sys.exit(f"{model} {defines}: the search was not completed:\n{said}")
        trail = ""
        if int(errors[1]) > 0:
            trail = run("spin", *flags, "-T", "-t", f"{model}.pml").stdout
        return int(errors[1]) > 0, int(states[1]), said, trail


def readable(trail):
    """The lines that the model prints, and what failed; nothing of spin's own book-keeping."""
    lines = []
    for line in trail.splitlines():
        if line.startswith(("ltl ", "Never claim", "#processes", "spin: trail ends")):
            if line.startswith("#processes"):
                break
            continue
        if line.strip():
            lines.append(
                re.sub(r"^spin: (\w+\.pml:\d+, Error: |text of failed assertion: )", "", line)
                .strip()
                .replace("<<<<<START OF CYCLE>>>>>", "and so for ever")
            )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--write-trails", action="store_true")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    arguments = parser.parse_args()
    failures = 0
    for model in arguments.models or MODELS:
        plan = MODELS[model]
        for defines in plan["holds"] + (plan["long"] if arguments.long else []):
            long = defines in plan["long"]
            found, states, said, trail = search(model, defines, optimize="-O2" if long else "-Og")
            print(
                f"{model} {' '.join(defines) or 'as it is'}: {'MISTAKE FOUND' if found else 'holds'}, {states} states",
                flush=True,
            )
            if found:
                failures += 1
                print(said, readable(trail), sep="\n")
        for rule in plan["broken"]:
            found, states, said, trail = search(
                model, configuration(plan, rule), shortest=arguments.write_trails
            )
            print(
                f"{model} {rule}: {'found' if found else 'NOT FOUND'}, {states} states", flush=True
            )
            failures += not found
            if found and arguments.write_trails:
                (HERE / "trails" / f"{model}.{rule.lower()}.txt").write_text(readable(trail))
            elif found and not (HERE / "trails" / f"{model}.{rule.lower()}.txt").exists():
                print(f"{model} {rule}: its trail is not kept; run with --write-trails")
                failures += 1
    return 1 if failures else 0


if __name__ == "__main__":
    compiler = next(
        (c for c in (os.environ.get("CC"), "cc", "gcc", "clang") if c and shutil.which(c)), None
    )
    if shutil.which("spin") is None or compiler is None:
        print("models: spin or a C compiler is missing: nothing is checked (apt-get install spin)")
        sys.exit(77)
    sys.exit(main())
