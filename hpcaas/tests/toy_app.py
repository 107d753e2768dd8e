"""A plug-in application for the tests: does what its size says, including everything that goes wrong."""

import re

from hpcaas.apps.base import (
    App,
    Build,
    Installation,
    Prepare,
    Reading,
    Run,
    Size,
    State,
    Unreadable,
)

# Recurses through more stack than 8 MiB and less than 64: what gfortran's -fstack-arrays does to
# large automatic arrays.
STACK = r'''
#include <stdio.h>
#include <string.h>
int main(void) { volatile char big[24 << 20]; memset((char*)big, 1, sizeof big); printf("time 0.5 %d\n", big[1 << 20]); return 0; }
'''


def size(name):
    return Size(name, name, {}, 0.1, 10, 1, "toy")


class Toy(App):
    name = title = "toy"
    vertical = origin = licence = check = figure = "toy"
    sizes = {
        n: size(n)
        for n in (
            "good",
            "wrong",
            "silent",
            "hang",
            "segv",
            "stack",
            "full",
            "badbuild",
            "badinput",
            "input",
            "flaky",
            "odd",
            "nan",
            "negative",
            "flood",
            "orphan",
            "stuck",
        )
    }
    agreement = {"sum": 1e-6}
    axes = {"mpi": True, "binding": True, "split": True, "variant": True, "filesystem": True}

    def find(self, site):
        return State([Installation("here", version="1.0")])

    def build(self, config, context):
        if config.size == "badbuild":
            return Build(["echo about to fail", "cc -o toy no_such_file.c"], ["toy"], flags="-O2")
        if config.size == "stack":
            return Build(
                [f"cat > toy.c <<'EOF'\n{STACK}\nEOF", "cc -O0 -o toy toy.c"],
                ["toy"],
                flags="-Ofast",
            )
        return None

    def prepare(self, config, context):
        if config.size == "badinput":
            return Prepare("bad", ["echo the mesh is missing >&2", "false"])
        if config.size == "input":
            return Prepare(
                "child",
                ["cat \"$HPCAAS_PARENT\"/number > copy"],
                after=Prepare("parent", ["echo 42 > number"]),
            )
        return None

    def run(self, config, context):
        script = {
            "good": "echo time 0.25 1",
            "wrong": "echo time 0.25 2",
            "silent": "echo nothing to see",
            "hang": "read -r x < $HPCAAS_WATCH/../fifo",
            "segv": "kill -SEGV $$",
            "full": "echo 'write: No space left on device' >&2; exit 1",
            # goes wrong the second time; counts in the directory of the campaign
            "flaky": 'n=$(ls -d "$HPCAAS_WATCH"/../../*/ | wc -l); '
            '[ $n -eq 2 ] && echo time 0.05 2 || echo time 0.05 1',
            # as fast as it is wrong: another sum under one of its variants
            "odd": f"echo time {'0.05 1 sum 2.5' if config.variant == 'c' else '0.25 1 sum 2.0'}",
            "nan": "echo time nan 1",
            "negative": "echo time -3 1",
            # prints without end, until nobody reads any more
            "flood": "yes 0123456789012345678901234567890123456789",
            # leaves a process in a session of its own, which keeps the output open
            "orphan": "setsid sleep 1000 & echo time 0.05 1",
            "stuck": "setsid sleep 1000 & read -r x < $HPCAAS_WATCH/../fifo",
            "input": 'echo time 0.$(cat "$HPCAAS_INPUT"/copy) 1',
        }.get(config.size, "true")
        if config.size == "stack":
            return Run("$HPCAAS_BUILD/toy")
        return Run(
            "/bin/bash",
            ["-c", "'" + script.replace("'", "'\\''") + "'"],
            before=["mkfifo $HPCAAS_WATCH/../fifo"] if config.size in ("hang", "stuck") else [],
        )

    def read(self, stdout, directory, config):
        found = re.search(r"time (nan|-?[\d.]+) (\d)(?: sum (\S+))?", stdout)
        if not found:
            raise Unreadable("no time")
        return Reading(
            float(found.group(1)),
            None,
            "" if found.group(2) == "1" else "answer 2 is not 1",
            {"sum": float(found.group(3))} if found.group(3) else {},
        )


class Moduled(Toy):
    """Installed by the site: reached through environment modules."""

    name = "moduled"
    axes = {"installation": True, "compiler": "installations bring this axis"}

    def find(self, site):
        from hpcaas.apps.base import installations_from_site

        found = installations_from_site(site, self.name)
        return State(found, "" if found else "not described", "" if found else "describe it")

    def build(self, config, context):
        return None

    def run(self, config, context):
        return Run("toytool")
