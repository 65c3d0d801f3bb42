"""Which nodes of a Ray cluster a job gets, and how many workers each of them. Decisions only: ray.py carries them out.

A node is as ray.nodes() has it, and `free` has the amounts that nobody has taken, by node and resource. `request` is
launcher/engine_wire/shim_wire.h's.
"""
MOST_WORKERS = 16384  # of a node, as dtrain counts them


def text_of(amounts):
    return ", ".join(f"{name} {amount:g}" for name, amount in sorted(amounts.items()))


def steps(amount):
    """Ray counts in steps of 0.0001."""
    return round(amount * 10000)


def part(free, node, names):
    return {name: free.get(node["NodeID"], {}).get(name, 0) for name in names}


def workers_on(node, request, per_worker, free):
    """How many workers this node gets; 0: it has no room for them."""
    wish = request["workers"]
    if wish.isdigit():
        workers = int(wish)
    else:
        kind = {"cpu": "CPU", "gpu": "GPU"}.get(wish) or ("GPU" if per_worker.get("GPU") else "CPU")
        if not wish and kind == "CPU":
            workers = 1
        elif not per_worker.get(kind):
            raise Refused(f"--nproc {wish} counts {kind}s, and a worker takes none of them", "usage")
        else:
            workers = int(node["Resources"].get(kind, 0) // per_worker[kind])
    return workers if fits(free, per_worker) >= workers else 0


def by_room(nodes, request, per_worker, free):
    """[(node, workers)] of nodes that have room, those with most of it first."""
    names = sorted(per_worker, key=lambda name: (name != "GPU", name))
    order = sorted(nodes, key=lambda node: list(part(free, node, names).values()), reverse=True)
    counted = [(node, workers_on(node, request, per_worker, free.get(node["NodeID"], {}))) for node in order]
    return [(node, workers) for node, workers in counted if workers]


def fits(amounts, per_worker):
    """How many workers these amounts are enough for."""
    counts = [steps(amounts.get(name, 0)) // steps(amount) for name, amount in per_worker.items() if steps(amount)]
    return int(min(counts, default=MOST_WORKERS))


def what_a_worker_takes(nodes, request):
    """What is asked for; else a CPU, and a GPU if any node has one."""
    if request["resources"]:
        return dict(request["resources"])
    has_gpus = request["workers"] != "cpu" and any(node["Resources"].get("GPU") for node in nodes)
    return {"CPU": 1, "GPU": 1} if has_gpus else {"CPU": 1}


def choose_nodes(nodes, free, request, answers):
    """([(node, workers)], what each worker takes). answers(node): whether it can be reached."""
    nodes = [node for node in nodes if node["Alive"]]
    per_worker = what_a_worker_takes(nodes, request)
    if request["all"].isdigit():
        return nodes_for(int(request["all"]), nodes, free, per_worker, answers), per_worker
    least, most = request["least"], request["most"]
    if request["all"] == "auto":  # a node that never has room for a worker is no node for workers, such as a head
        least = max(1, sum(fits(node["Resources"], per_worker) > 0 for node in nodes))
    chosen = []
    for node, workers in by_room(nodes, request, per_worker, free):
        if len(chosen) < most and answers(node):
            chosen.append((node, workers))
    if len(chosen) < least:
        wish = f"{request['workers']} workers" if request["workers"].isdigit() else "workers"
        raise Refused(f"the cluster has room on {len(chosen)} of {len(nodes)} nodes for {wish} that take "
                      f"{text_of(per_worker)} each, and {least} nodes are asked for: "
                      f"{rooms(nodes, free, per_worker)}", "unavailable")
    return chosen, per_worker


def nodes_for(workers, nodes, free, per_worker, answers):
    """The nodes with most room, as many as these workers need."""
    names = sorted(per_worker, key=lambda name: (name != "GPU", name))
    room = {node["NodeID"]: fits(free.get(node["NodeID"], {}), per_worker) for node in nodes}
    chosen, left = [], workers
    for node in sorted(nodes, key=lambda node: list(part(free, node, names).values()), reverse=True):
        here = min(left, room[node["NodeID"]], MOST_WORKERS)
        if here and answers(node):
            chosen.append((node, here))
            left -= here
    if left:
        raise Refused(f"the cluster has room for {workers - left} workers that take {text_of(per_worker)} each, and "
                      f"{workers} are asked for: {rooms(nodes, free, per_worker)}", "unavailable")
    return chosen


def rooms(nodes, free, per_worker):
    return "; ".join(f"{node['NodeManagerAddress']} has {text_of(part(free, node, per_worker))} free"
                     for node in nodes[:8])


def newcomers(nodes, free, request, per_worker, taken, not_before, now):
    """[(node, workers)]: nodes that a job can have in addition. taken: those of its agents. not_before: when a node
    that has lost an agent may have another one."""
    others = [node for node in nodes if node["Alive"] and node["NodeID"] not in taken
              and not_before.get(node["NodeID"], 0) <= now]
    return by_room(others, request, per_worker, free)[:request["most"] - len(taken)]
