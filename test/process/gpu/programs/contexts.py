"""Ranks of gpu_worker on several GPUs: NVML sees each process on one of them."""
import os
import subprocess
import sys

with subprocess.Popen([sys.argv[1], "horovod"], stdout=subprocess.PIPE, text=True) as worker:
    for line in worker.stdout:
        if "hvd_join" in line:
            seen = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,gpu_uuid", "--format=csv,noheader"],
                                  capture_output=True, text=True, timeout=60).stdout
            mine = {row.split(", ")[1] for row in seen.splitlines() if row.startswith(f"{worker.pid}, ")}
            print("rank", os.environ["RANK"], "is on", sorted(mine), flush=True)
            if len(mine) > 1:
                worker.kill()
                sys.exit("it has a context on the GPU of another")
sys.exit(worker.returncode)
