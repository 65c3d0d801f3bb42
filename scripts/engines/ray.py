"""Starts an agent of dtrain on each node of a Ray cluster that a job takes, and ends with it: for
`dtrain run --engine ray`, after shim.py and ray_nodes.py.
"""
import time

GROUP_SECONDS = 15
# A job with MIN:MAX that has fewer than MAX nodes looks for others so often.
LOOK_SECONDS = 0.5
# Ray takes up to 16 s to see that a node is dead; its port tells at once.
PORT_SECONDS = 1
LONGEST_WAIT = 60
MOST_AGENTS = 65536  # in the whole life of a job, as dtrain counts them


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


def answers(node):
    return not knock(node["NodeManagerAddress"], node["NodeManagerPort"], PORT_SECONDS)


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


def takes(per_worker, workers):
    bundle = {name: steps(amount * workers) / 10000 for name, amount in per_worker.items() if amount}
    return bundle or {"CPU": 0.001}


class Job:
    """The actors of a job's agents."""

    def __init__(self, ray, request):
        self.ray, self.request = ray, request
        self.grows = request["grows"]
        self.lock = threading.Lock()
        self.actors, self.nodes, self.ends = {}, {}, {}  # by agent; the ends' agents by what each will return
        self.count = 0
        self.over = threading.Event()
        self.losses, self.not_before = {}, {}  # by node

    def place(self):
        chosen, self.per_worker = choose_nodes(self.ray.nodes(), free_by_node(), self.request, answers)
        if self.request["looks"]:
            return say(placed=[{"host": node["NodeManagerAddress"], "workers": workers,
                                "takes": takes(self.per_worker, workers)} for node, workers in chosen])
        hosts = (self.on_nodes if self.grows else self.in_a_group)(chosen)
        say(placed=[{"host": host, "workers": workers} for host, (_, workers) in zip(hosts, chosen)])
        threading.Thread(target=self.watch, daemon=True).start()

    def in_a_group(self, chosen):
        """All of them or none."""
        from ray.util.placement_group import placement_group, placement_group_table
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
        bundles = [takes(self.per_worker, workers) for _, workers in chosen]
        group = placement_group(bundles, strategy="STRICT_SPREAD")
        if not group.wait(GROUP_SECONDS):
            raise Refused("the cluster has given its free room to others in the meantime: try again", "unavailable")
        where = placement_group_table(group)["bundles_to_node_id"]
        names = {node["NodeID"]: node["NodeManagerAddress"] for node in self.ray.nodes()}
        for i, bundle in enumerate(bundles):
            self.start(where[i], bundle, PlacementGroupSchedulingStrategy(group, i))
        return [names.get(where[i], f"node {i}") for i in range(len(bundles))]

    def on_nodes(self, chosen):
        """Each by itself: a group's places would move to other nodes."""
        for node, workers in chosen:
            self.start_on(node, workers)
        return [node["NodeManagerAddress"] for node, _ in chosen]

    def start_on(self, node, workers):
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
        self.start(node["NodeID"], takes(self.per_worker, workers),
                   NodeAffinitySchedulingStrategy(node["NodeID"], soft=False, _fail_on_unavailable=True))

    def start(self, node, bundle, strategy):
        agent, self.count = self.count, self.count + 1
        make = self.ray.remote(max_restarts=0, max_task_retries=0)(Node)
        actor = make.options(scheduling_strategy=strategy, **options_of(bundle)).remote()
        self.actors[agent], self.nodes[agent] = actor, node
        self.ends[actor.run.remote(self.request["program"], {**self.request["order"], "agent": agent})] = agent

    def watch(self):
        """Tell how each actor ends, and of nodes that come."""
        while not self.over.is_set():
            with self.lock:
                ends = list(self.ends)
            if not ends and not self.grows:
                return
            try:
                if ends:
                    done, _ = self.ray.wait(ends, num_returns=1, timeout=LOOK_SECONDS if self.grows else None)
                    for end in done:
                        self.tell_end(end)
                if self.grows:
                    self.look()
            except Exception:
                ends = []  # Ray's head may be away for a while
            if not ends:
                self.over.wait(LOOK_SECONDS)

    def tell_end(self, end):
        with self.lock:
            agent = self.ends.pop(end, None)
        if agent is None:
            return
        try:
            code, why = self.ray.get(end)
            say(lost=agent, why=why or f"its relay has ended with {code}")
        except Exception as error:
            say(lost=agent, why=f"Ray has lost it: {first_line(error)}")

    def look(self):
        with self.lock:
            taken, not_before = set(self.nodes.values()), dict(self.not_before)
        if len(taken) >= self.request["most"] or self.count >= MOST_AGENTS:
            return
        found = newcomers(self.ray.nodes(), free_by_node(), self.request, self.per_worker, taken, not_before,
                          time.monotonic())
        for node, workers in found:
            there = answers(node)
            with self.lock:
                if self.over.is_set():
                    return
                if there:
                    self.start_on(node, workers)
                    say(joined=self.count - 1, host=node["NodeManagerAddress"], workers=workers)
                else:
                    self.not_before[node["NodeID"]] = time.monotonic() + PORT_SECONDS

    def vacate(self, agent):
        with self.lock:
            actor, node = self.actors.pop(agent, None), self.nodes.pop(agent, None)
            if actor is None or self.over.is_set():
                return
            self.ends = {end: each for end, each in self.ends.items() if each != agent}
            losses = self.losses[node] = self.losses.get(node, 0) + 1
            self.not_before[node] = time.monotonic() + min(2 ** (losses - 1), LONGEST_WAIT)
        try:
            self.ray.kill(actor)
        except Exception:
            pass  # it has gone

    def end(self):
        with self.lock:
            self.over.set()
            self.actors.clear()  # an actor ends when nobody holds it
        self.ray.shutdown()  # and with it a placement group ends


JOBS = []


def start(request):
    JOBS.append(Job(connect(), request))
    JOBS[0].place()
    return JOBS[0].end


serve("Ray", start, lambda agent: JOBS[0].vacate(agent))
