#!/bin/sh
# Stands between the launcher and the application: writes down where this rank was put, then becomes the application, so that
# the process id stays the same and nothing but a few file reads is added to the run.
dir=$HPCAAS_WATCH
rank=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-${PMI_RANK:-${SLURM_PROCID:-0}}}}
read -r host < /proc/sys/kernel/hostname
cpus=unknown
while read -r name value; do
    if [ "$name" = "Cpus_allowed_list:" ]; then cpus=$value; break; fi
done < /proc/self/status
if [ "$HPCAAS_STACK" = unlimited ]; then ulimit -s unlimited 2>/dev/null || ulimit -s "$(ulimit -H -s)"; fi
echo "$rank $host $$ $cpus $(ulimit -s)" > "$dir/rank.$rank"
# The first rank of a host starts its watcher. mkdir is atomic; the watcher ends by itself with the last rank.
if mkdir "$dir/host.$host" 2>/dev/null; then
    setsid nice -n 19 "$HPCAAS_PYTHON" -S -E "$HPCAAS_WATCHER" "$dir" "$host" </dev/null >/dev/null 2>&1 &
fi
exec "$@"
