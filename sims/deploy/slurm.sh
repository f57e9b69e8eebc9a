#!/bin/bash
# A training under SLURM: 2 parameter servers and 6 workers, two tasks on each of four hosts.
#
#   sbatch sims/deploy/slurm.sh
#
# `srun` starts one `trainyard task` a rank; each has its cluster and its role from SLURM's variables. The
# first `--ps` ranks are the parameter servers, rank 2 is the chief, which prints the result. Ports follow from
# the job's number (`--port-base` sets them). The folder of the scripts must be on all hosts.
#
# Every task proves who it is with a certificate, made here for this job alone and removed at its end.
#
# Exit codes from 128 on mean "try again": the job is then put back into the queue, three times at most.
#SBATCH --job-name=digits
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --cpus-per-task=1
#SBATCH --time=00:30:00
#SBATCH --signal=TERM@60
#SBATCH --requeue
set -euo pipefail

certs=$(mktemp -d "$PWD/certs-$SLURM_JOB_ID-XXXXXX")
trap 'rm -rf "$certs"' EXIT
trainyard certs new "$certs" --run-name "job $SLURM_JOB_ID"
trainyard certs issue "$certs" --task ps:0,ps:1,worker:0,worker:1,worker:2,worker:3,worker:4,worker:5

export RAYON_NUM_THREADS=$SLURM_CPUS_PER_TASK # so that tasks on one host don't fight for its cores
code=0
srun --kill-on-bad-exit=1 --distribution=block \
    trainyard task sims/sync_vs_async.toml --run sync --ps 2 --certs "$certs" --run-name "job $SLURM_JOB_ID" \
    --out "results-$SLURM_JOB_ID" || code=$?

if [ "$code" -ge 128 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
