"""Starts an agent of dtrain on each node of a Ray cluster that a job takes, and ends with it: for
`dtrain run --engine ray`, after shim.py.
"""
GROUP_SECONDS = 15


def connect():
    try:
        import ray
    except ImportError as error:
        raise cannot_import("ray", error) from None
    address = os.environ.get("RAY_ADDRESS") or "auto"
    host, _, port = address.rpartition(":")
    if address.startswith("ray://"):
        raise Refused(f"RAY_ADDRESS={address} leads into a cluster from outside: type the command on a host of the "
                      "cluster, whose address is HOST:6379 as a rule", "usage")
    if address != "auto" and not address.startswith("http") and (not host or not port.isdigit()):
        raise Refused(f"RAY_ADDRESS={address} is no HOST:PORT of a cluster", "usage")
    if address.startswith(("http://", "https://")):
        raise Refused(f"RAY_ADDRESS={address} is where jobs are submitted: type `ray job submit -- dtrain run "
                      "--engine ray ...`, or set it to the address of the cluster", "usage")
    if address != "auto" and (wrong := knock(host, int(port))):
        raise Refused(f"RAY_ADDRESS={address} does not answer: {wrong}")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error")
    except ConnectionError as error:
        where = ("no Ray cluster runs on this host, and RAY_ADDRESS is not set" if address == "auto" else
                 f"RAY_ADDRESS={address} does not answer: {first_line(error)}")
        raise Refused(f"{where}; start one with `ray start --head`, or set RAY_ADDRESS") from None
    except Exception as error:
        raise Refused(f"Ray refuses: {first_line(error)}") from None
    return ray


def free_by_node():
    from ray._private import state
    return state.available_resources_per_node()


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
    fits = all(steps(free.get(name, 0)) >= steps(amount * workers) for name, amount in per_worker.items())
    return workers if fits else 0


def choose_nodes(ray, request):
    """[(node, workers)], the nodes with most room first."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    free = free_by_node()
    per_worker = dict(request["resources"])
    if not per_worker:
        per_worker = {"CPU": 1}
        if request["workers"] != "cpu" and any(node["Resources"].get("GPU") for node in nodes):
            per_worker["GPU"] = 1
    names = sorted(per_worker, key=lambda name: (name != "GPU", name))
    order = sorted(nodes, key=lambda node: list(part(free, node, names).values()), reverse=True)
    chosen = []
    for node in order:
        workers = workers_on(node, request, per_worker, free.get(node["NodeID"], {}))
        if workers:
            chosen.append((node, workers))
    least, most = request["least"], request["most"]
    if len(chosen) < least:
        rooms = "; ".join(f"{node['NodeManagerAddress']} has {text_of(part(free, node, per_worker))} free"
                          for node in order[:8])
        wish = f"{request['workers']} workers" if request["workers"].isdigit() else "workers"
        raise Refused(f"the cluster has room on {len(chosen)} of {len(nodes)} nodes for {wish} that take "
                      f"{text_of(per_worker)} each, and {least} nodes are asked for: {rooms}", "unavailable")
    return chosen[:most], per_worker


class Node:
    """An actor: the relay beside the agent of one node. With the actor ends the relay's standard input."""

    # Ray's own, for its own workers.
    OF_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")

    def as_on_the_node(self, pid):
        """Ray makes its workers nice, and the first to be killed when memory ends: not ours, as far as we may."""
        raylet = os.getppid()
        try:
            os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, raylet))
            with open(f"/proc/{raylet}/oom_score_adj") as file, open(f"/proc/{pid}/oom_score_adj", "w") as own:
                own.write(file.read())
        except OSError:
            pass

    def run(self, program, order):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith("RAY_") and name not in self.OF_RAY}
        return run_relay(program, order, env, self.as_on_the_node)


def options_of(amounts):
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    options = {named[name]: amount for name, amount in amounts.items() if name in named}
    options.setdefault("num_cpus", 0)
    others = {name: amount for name, amount in amounts.items() if name not in named}
    return {**options, "resources": others} if others else options


def place(ray, request):
    """The actors, and what each of them will return."""
    from ray.util.placement_group import placement_group, placement_group_table
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    chosen, per_worker = choose_nodes(ray, request)
    bundles = [{name: steps(amount * workers) / 10000 for name, amount in per_worker.items() if amount}
               for _, workers in chosen]
    group = placement_group([bundle or {"CPU": 0.001} for bundle in bundles], strategy="STRICT_SPREAD")
    if not group.wait(GROUP_SECONDS):
        raise Refused("the cluster has given its free room to others in the meantime: try again", "unavailable")
    where = placement_group_table(group)["bundles_to_node_id"]
    names = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    Actor = ray.remote(max_restarts=0, max_task_retries=0)(Node)
    actors = [
        Actor.options(scheduling_strategy=PlacementGroupSchedulingStrategy(group, i), **options_of(bundle)).remote()
        for i, bundle in enumerate(bundles)
    ]
    ends = {
        actor.run.remote(request["program"], {**request["order"], "agent": i}): i
        for i, actor in enumerate(actors)
    }
    say(placed=[{"host": names.get(where[i], f"node {i}"), "workers": workers}
                for i, (_, workers) in enumerate(chosen)])
    return actors, ends


def watch(ray, ends):
    """Tell how each actor ends."""
    while ends:
        done, _ = ray.wait(list(ends), num_returns=1)
        agent = ends.pop(done[0])
        try:
            code, why = ray.get(done[0])
            say(lost=agent, why=why or f"its relay has ended with {code}")
        except Exception as error:
            say(lost=agent, why=f"Ray has lost it: {first_line(error)}")


def start(request):
    ray = connect()
    actors, ends = place(ray, request)
    threading.Thread(target=watch, args=(ray, ends), daemon=True).start()

    def end():
        actors.clear()  # an actor ends when nobody holds it
        ray.shutdown()  # and with it the placement group ends

    return end


serve("Ray", start)
