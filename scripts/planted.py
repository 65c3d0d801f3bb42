#!/usr/bin/env python3
"""Does the simulator find bugs? Plants each of test/sim/planted/*.patch, and demands that some seed breaks.

    planted.py [--seeds 20000] [--jobs N] [NAME...]

Sources are copied to a folder of their own; only the cores and the simulator are built, with $CXX (g++). A patch that
does not apply is an error: adapt it to the code. Ends with 1 when a bug stays hidden.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CXX = os.environ.get("CXX", "g++")
ROOT = pathlib.Path(__file__).resolve().parent.parent
CORES = ["rendezvous/rounds/round_core.cc", "rendezvous/rounds/round_core_join.cc", "rendezvous/rounds/round_facts.cc",
         "rendezvous/rounds/round_members.cc",
         "rendezvous/rounds/round_order.cc", "rendezvous/rounds/voter_id.cc", "rendezvous/election/host_lease.cc",
         "rendezvous/election/succession_core.cc", "rendezvous/election/etcd_election_core.cc",
         "rendezvous/rounds/round_core_cause.cc", "launcher/job/group_core.cc", "launcher/job/group_core_failure.cc",
         "launcher/hosting/join_core.cc", "launcher/job/root_cause.cc", "launcher/job/exit_status.cc",
         "rendezvous/base/check.cc"]
# A simulator of more than cores needs what it runs.
NEEDS = {"store": ["rendezvous/" + name + ".cc" for name in [
    "base/check", "base/printable", "credentials/private_file", "base/result", "credentials/job_secret",
    "credentials/link_credential", "credentials/link_name", "credentials/tls_context", "crypto/hkdf",
    "crypto/openssl", "crypto/secret_memory", "net/acceptor", "net/connect", "net/listen", "net/overflow_uid",
    "net/peer_uid", "net/proc_sockets", "store/store_core", "store/store_waits", "store/store_wire",
    "store_relay/store_link", "store_relay/store_link_wire",
    "store_relay/store_links", "store_relay/store_relay", "store_server/store_clients", "store_server/store_local",
    "store_server/store_service", "tls/link_socket", "tls/link_stream", "tls/tls_alerts", "tls/tls_bio",
    "tls/tls_handshake", "tls/tls_session"]],
    "unshard": ["strategies/shard/unshard_core.cc"]}
# A patch named succession-..., pulse-..., election-..., store-... or unshard-... is for another than the first.
SIMS = {"job": ["job_world.cc", "job_link.cc", "job_host.cc", "job_node.cc", "job_sim_main.cc"],
        "succession": ["succession_world.cc", "succession_node.cc", "succession_sim_main.cc"],
        "election": ["election_world.cc", "election_sim_main.cc"],
        "store": ["store_world.cc", "store_clients.cc", "store_network.cc", "store_witness.cc", "store_model.cc",
                  "store_sim_main.cc"],
        "unshard": ["stream_machine.cc", "unshard_rank.cc", "unshard_program.cc", "unshard_world.cc",
                    "unshard_sim_main.cc"]}
OF_PREFIX = {"succession": "succession", "pulse": "succession", "election": "election", "store": "store",
             "unshard": "unshard"}
# Which part of --seeds: one of the second is as long as ten others, and finds rarer bugs.
SHARE = {"job": 1, "succession": 2, "election": 1, "store": 4, "unshard": 10}


def compile_and_link(folder, sim, base=None, changed=()):
    """This simulator in `folder`; objects that no change touches are those in `base`."""
    objects = []
    for source in NEEDS.get(sim, CORES) + ["test/sim/" + name for name in SIMS[sim]]:
        name = source.replace("/", "_") + ".o"
        reusable = base and source not in changed and all(path.endswith(".cc") for path in changed)
        objects.append(str((base if reusable else folder) / name))
        if not reusable and not (folder / name).exists():
            subprocess.run([CXX, "-std=c++20", "-O1", "-w", "-I.", "-c", source, "-o", name], cwd=folder, check=True)
    subprocess.run([CXX, *objects, "-lfmt", "-o", str(folder / sim)], check=True)


def copy(folder):
    for part in ["rendezvous", "launcher", "strategies/shard", "test/sim"]:
        shutil.copytree(ROOT / part, folder / part)


def run(folder, sim, seeds):
    count = max(1, seeds // SHARE[sim])
    done = subprocess.run([str(folder / sim), "1", str(count)], capture_output=True, text=True, timeout=600)
    return done.returncode, (done.stdout.splitlines() or [f"ended with {done.returncode}"])[0]


def sim_of(patch):
    return OF_PREFIX.get(patch.stem.split("-")[0], "job")


def try_one(patch, seeds, base):
    sim = sim_of(patch)
    changed = [line[6:].strip() for line in patch.read_text().splitlines() if line.startswith("+++ b/")]
    with tempfile.TemporaryDirectory(prefix="dtrain-planted-") as name:
        folder = pathlib.Path(name)
        copy(folder)
        subprocess.run(["patch", "-s", "-p1", "-i", str(patch)], cwd=folder, check=True)
        compile_and_link(folder, sim, base, changed)
        return run(folder, sim, seeds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    patches = sorted((ROOT / "test/sim/planted").glob("*.patch"))
    patches = [p for p in patches if not args.names or p.stem in args.names]
    hidden = []
    with tempfile.TemporaryDirectory(prefix="dtrain-planted-") as name:
        base = pathlib.Path(name)
        copy(base)
        for sim in [sim for sim in SIMS if any(sim_of(p) == sim for p in patches)]:
            compile_and_link(base, sim)
            code, first = run(base, sim, args.seeds)
            print(f"{'(nothing planted)':<30} {first}", flush=True)
            if code != 0:
                return 1
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            tries = [(p, pool.submit(try_one, p, args.seeds, base)) for p in patches]
            for patch, tried in tries:
                code, first = tried.result()
                if code == 0:
                    hidden.append(patch.stem)
                print(f"{patch.stem:<30} {first if code else 'HIDDEN'}", flush=True)
    print(f"{len(patches) - len(hidden)} of {len(patches)} planted bugs caught")
    return 1 if hidden else 0


if __name__ == "__main__":
    sys.exit(main())
