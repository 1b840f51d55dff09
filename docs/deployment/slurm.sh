#!/bin/bash
# A scheduler, workers and a program in one job of SLURM:
#   sbatch slurm.sh dspectral lsi-classification STORE
# A program gets the address as --scheduler; a script of your own as DASK_SCHEDULER_ADDRESS, which Client() reads.
#SBATCH --job-name=dspectral
#SBATCH --ntasks=42
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=02:00:00
#SBATCH --signal=TERM@60
set -euo pipefail

shared=${DSPECTRAL_SHARED:-$HOME}               # a folder that every node sees
scratch=${DSPECTRAL_SCRATCH:-${TMPDIR:-/tmp}}   # a disk of the node
memory=${DSPECTRAL_MEMORY:-3700MB}              # of a worker: a little less than --mem-per-cpu
file=$shared/dask-scheduler-$SLURM_JOB_ID.json
export OMP_NUM_THREADS=1 DASK_CONFIG=${DASK_CONFIG:-$HOME/.config/dask}
trap 'kill $(jobs -p) 2>/dev/null || true; rm -f "$file"' EXIT

# One task for the scheduler, one for the program, the others are workers.
srun --ntasks=1 --exact dask scheduler --port 0 --no-dashboard --scheduler-file "$file" &
srun --ntasks=$((SLURM_NTASKS - 2)) --exact dask worker --scheduler-file "$file" --nthreads 1 \
    --memory-limit "$memory" --local-directory "$scratch" --death-timeout 120 --no-dashboard &
for _ in $(seq 600); do [ -s "$file" ] && break; sleep 0.2; done
DASK_SCHEDULER_ADDRESS=$(python -c 'import json, sys; print(json.load(open(sys.argv[1]))["address"])' "$file")
export DASK_SCHEDULER_ADDRESS
if [ "$1" = dspectral ]; then set -- "$@" --scheduler "$DASK_SCHEDULER_ADDRESS"; fi
"$@"
