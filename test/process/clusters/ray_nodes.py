"""The cluster of ray_cluster.py: run by a Python that has Ray. It says its address and that of its jobs. A line of
standard input is a wish, and its answer a line; the cluster ends with the input.

  add {"num_cpus": 2}    a node; says its number. With "hidden": FOLDER, the node finds this folder empty
  kill N                 its raylet, by SIGKILL
  settle                 answers when Ray has seen which nodes are gone
  raylet N               says its process
"""
import contextlib
import json
import os
import pathlib
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from netlab import namespaces  # noqa: E402

OUT = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

from ray.cluster_utils import Cluster  # noqa: E402

STORE_BYTES = 80 << 20


def main():
    # Short: sockets lie in it.
    with tempfile.TemporaryDirectory(prefix="dtr", ignore_cleanup_errors=True) as folder:
        # Without this Ray writes of each cluster into /tmp/ray, which may not be there, or somebody's.
        os.environ["RAY_TMPDIR"] = folder
        temp = os.path.join(folder, "ray")
        os.mkdir(temp)
        head = {"num_cpus": 0, "temp_dir": temp, "object_store_memory": STORE_BYTES, "include_dashboard": True}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        nodes = []
        try:
            print(cluster.address, f"http://{cluster.head_node.webui_url}", file=OUT)
            for line in sys.stdin:
                wish, _, rest = line.strip().partition(" ")
                if wish == "add":
                    amounts = json.loads(rest)
                    folder = amounts.pop("hidden", None)
                    with namespaces.hidden(folder) if folder else contextlib.nullcontext():
                        nodes.append(cluster.add_node(wait=True, object_store_memory=STORE_BYTES, **amounts))
                    print(len(nodes) - 1, file=OUT)
                elif wish == "kill":
                    node = nodes[int(rest)]
                    cluster.remove_node(node, allow_graceful=False)
                    print("killed", file=OUT)
                elif wish == "settle":
                    cluster.wait_for_nodes(60)
                    print("settled", file=OUT)
                elif wish == "raylet":
                    print(nodes[int(rest)].all_processes["raylet"][0].process.pid, file=OUT)
        finally:
            cluster.shutdown()


main()
