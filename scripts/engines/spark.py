"""Starts an agent of dtrain in each task of a stage of Spark, and ends with it: for
`dtrain run --engine spark`, after shim.py and spark_tasks.py.
"""
import re
import shlex
import time
import uuid

# Of a Python program which runs this code inside itself: its SparkContext, and the event that dtrain is no more.
CONTEXT = globals().get("CONTEXT")
GONE = globals().get("GONE") or threading.Event()
# Of such a program: a DataFrame with a partition for each task, and how many ranks of a task share that; or none.
DATA, READERS = globals().get("DATA"), globals().get("READERS", 1)
EXECUTORS_SECONDS = 60  # for the first executor to come
QUIET_SECONDS = 10      # after this time without another executor, there are no more
ENOUGH_SECONDS = 3      # the same, where there are slots enough already
ASK_SECONDS = 20        # for the master to say that it takes this driver
POLL_SECONDS = 0.05
GPUS, EXECUTOR_GPUS = "spark.task.resource.gpu.amount", "spark.executor.resource.gpu.amount"
# What must be as it is at the master.
OF_CONNECTIONS = "spark.authenticate", "spark.network.crypto.enabled", "spark.ssl.rpc.enabled"


def why_of(error):
    """Py4J's own first line says only which method has failed."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    lines = text.splitlines()
    ours = [line for line in lines if "dtrain: " in line]
    if ours:
        return ours[0].split("dtrain: ", 1)[1]
    python = [i for i, line in enumerate(lines[:-1]) if line.startswith("Error from python worker")]
    return lines[python[0] + 1].strip() if python else first_line(text)


def root_of(error):
    """Why a connection of Spark's has failed: its own text says only that one has."""
    java = error.java_exception
    while java.getCause() is not None:
        java = java.getCause()
    why = first_line(java.getMessage() or java.toString())
    return "it closes the connection" if "Outbox is stopped" in why else why


def import_pyspark():
    home = os.environ.get("SPARK_HOME")
    if home:
        import glob
        sys.path[:0] = [os.path.join(home, "python"), *glob.glob(os.path.join(home, "python/lib/py4j-*.zip"))]
    try:
        import pyspark
    except ImportError as error:
        raise cannot_import("pyspark", error) from None
    return pyspark


class Complaints(threading.Thread):
    """Passes on what the JVM writes to its standard error, and knows why it has not started."""

    def __init__(self):
        super().__init__(daemon=True)
        self.reader, self.writer = os.pipe()
        self.first = []
        self.start()

    def run(self):
        with open(self.reader, errors="replace") as lines:
            for line in lines:
                if len(self.first) < 200:
                    self.first.append(line.strip())
                sys.stderr.write(line)

    def why(self):
        self.join(1)
        told = [line for line in self.first if line.startswith("Error") or "Exception" in line]
        return (told or self.first[-1:] or ["Java ended"])[0]


def start_java(pyspark):
    from pyspark.java_gateway import launch_gateway
    complaints = Complaints()
    try:
        gateway = launch_gateway(popen_kwargs={"stderr": complaints.writer})
    except Exception:
        os.close(complaints.writer)
        raise Refused(f"Spark does not start here: {complaints.why()} (it needs Java: JAVA_HOME or PATH)") from None
    os.close(complaints.writer)
    pyspark.SparkContext._ensure_initialized(gateway=gateway)


def configure(pyspark, request):
    """What spark-submit would find: options, spark-defaults.conf and environment. A JVM comes with it."""
    for name in "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET":  # of a program of Spark's that has started dtrain
        os.environ.pop(name, None)
    if not os.environ.get("MASTER"):
        os.environ.pop("MASTER", None)  # an empty one is an error of spark-submit's
    try:
        shlex.split(request["options"])
    except ValueError as error:
        raise Refused(f"--spark '{request['options']}': {error}", "usage") from None
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{request['options']} pyspark-shell"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The driver does little, and compiles for as long as it lives if nobody stops it.
    os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1"
    start_java(pyspark)
    conf = pyspark.SparkConf()
    named = re.search(r"(--master|spark\.master)[ =]['\"]?local", request["options"])
    master = conf.get("spark.master", "")
    if not master or master.startswith("local") and not named and os.environ.get("MASTER") != master:
        raise Refused("no master of Spark's is known: give --spark '--master spark://HOST:7077', or set MASTER or "
                      "spark.master in spark-defaults.conf", "usage")
    if master.startswith("spark://"):
        ask_masters(pyspark, conf, master)
    return conf


def masters_of(address):
    found = [re.fullmatch(r"(.+):(\d+)", each) for each in address.removeprefix("spark://").split(",")]
    if not all(found):
        raise Refused(f"{address} is no spark://HOST:PORT", "usage")
    return [(each[1], int(each[2])) for each in found]


def ask_masters(pyspark, conf, address):
    """Whether one of them takes this driver. Spark's own client asks for a minute, and tells only its log why."""
    masters = masters_of(address)
    silent = [knock(*master) for master in masters]
    if all(silent):
        raise Refused(f"{address} does not answer: {silent[0]}")
    wrongs = refusals(pyspark, conf, [master for master, why in zip(masters, silent) if not why])
    if wrongs and all(wrongs):
        ours = ", ".join(f"{name}={conf.get(name, 'false')}" for name in OF_CONNECTIONS)
        raise Refused(f"{address} does not take this driver: {wrongs[0]}. Here are {ours}: these, the secret and the "
                      "certificates must be the cluster's")


def refusals(pyspark, conf, masters):
    """For each master why it does not take this driver, or an empty text. Of no master if this Spark cannot say it."""
    from py4j.protocol import Py4JError, Py4JJavaError
    spark, asks = pyspark.SparkContext._jvm.org.apache.spark, conf._jconf.clone()
    asks.set("spark.rpc.lookupTimeout", f"{ASK_SECONDS}s")

    def refusal(host, port):
        try:
            client.setupEndpointRef(spark.rpc.RpcAddress(host, port), "Master")
        except Py4JJavaError as error:
            return root_of(error)
        return ""

    try:
        # What Scala puts in place of arguments that are not given.
        defaults = [getattr(spark.SecurityManager, f"$lessinit$greater$default${i}")() for i in (2, 3)]
        security = spark.SecurityManager(asks, *defaults)
        security.initializeAuth()
        client = spark.rpc.RpcEnv.create("dtrain", "localhost", 0, asks, security, True)
        wrongs = [refusal(*master) for master in masters]
        client.shutdown()
        return wrongs
    except Py4JJavaError as error:
        raise Refused(f"Spark refuses: {root_of(error)}") from None
    except (Py4JError, TypeError):
        return []  # these classes are Spark's own, and another version may have others


def counts_workers(request):
    """So many workers are asked for, and not nodes: until they are divided, a task takes what a worker takes."""
    return request["all"].isdigit()


def take_one_node(conf, request):
    """For GPUs of which only dtrain knows: how many an executor has must be said before there are executors."""
    if counts_workers(request) and request["resources"].get("GPU") and not conf.contains(EXECUTOR_GPUS):
        request.update(workers=request["all"], all="", most=1)


def whole(name, amount):
    if amount != int(amount):
        raise Refused(f"{name}={amount:g} for all workers of a node is no whole number, which Spark needs", "usage")
    return int(amount)


def workers_of_a_task(conf, request):
    """How many workers each node gets. What they take is asked of Spark."""
    wish, resources = request["workers"], request["resources"]
    if counts_workers(request) and not resources:
        return 1
    if not resources:
        gpus = int(float(conf.get(GPUS, "0")))
        if wish == "gpu" and not gpus:
            raise Refused(f"--nproc gpu counts GPUs, and a task of Spark's has none ({GPUS})", "usage")
        if wish.isdigit():
            return int(wish)
        cpus = int(conf.get("spark.task.cpus", "1"))
        return cpus if wish == "cpu" or wish == "auto" and not gpus else gpus or 1
    if wish and not wish.isdigit():
        raise Refused(f"--resources-per-worker on Spark needs a number of workers: --nproc N, not {wish}", "usage")
    workers = int(wish or 1)
    for name, amount in resources.items():
        total = whole(name, amount * workers)
        if name == "memory":
            raise Refused("Spark gives memory to executors: --spark '--conf spark.executor.memory=4g'", "usage")
        if name == "CPU":
            conf.set("spark.task.cpus", str(max(total, 1)))
        elif total:
            of = name.lower() if name == "GPU" else name
            conf.set(f"spark.task.resource.{of}.amount", str(total))
            if not conf.contains(f"spark.executor.resource.{of}.amount"):
                conf.set(f"spark.executor.resource.{of}.amount", str(total))
    return workers


def connect(pyspark, conf, job):
    conf.setAppName(conf.get("spark.app.name", job))
    conf.set("spark.dynamicAllocation.enabled", "false")  # a barrier stage needs its slots at once
    conf.set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
    conf.set("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "3")
    conf.set("spark.speculation", "false")  # a node that takes long is no reason for a second one
    conf.set("spark.ui.showConsoleProgress", "false")
    try:
        context = pyspark.SparkContext(conf=conf)
    except Exception as error:
        raise Refused(f"Spark refuses: {why_of(error)}") from None
    context.setLogLevel("OFF")
    return context


def pause():
    if GONE.wait(POLL_SECONDS):
        raise Refused("dtrain has ended")


def choose_tasks(context, request):
    """How many tasks can run at a time, from `least` to `most`. Executors come one by one, and nothing says that all
    have come. Spark spreads the tasks over those that are there, so each task shall have one."""
    scala = context._jsc.sc()
    profile = scala.resourceProfileManager().defaultResourceProfile()
    least, most = request["least"], request["most"]
    workers = int(request["all"]) if counts_workers(request) else 0
    least = max(least, workers)
    slots = executors = 0
    last = time.monotonic() + EXECUTORS_SECONDS
    while slots < workers if workers else min(slots, executors) < most:
        found = scala.maxNumConcurrentTasks(profile), len(scala.statusTracker().getExecutorInfos()) - 1
        if found != (slots, executors):
            slots, executors = found
            last = time.monotonic() + (ENOUGH_SECONDS if slots >= least else QUIET_SECONDS)
        if time.monotonic() > last or scala.isLocal():
            break
        pause()
    if not slots:
        raise Refused(f"Spark has given no executor within {EXECUTORS_SECONDS} s that can run a task: is the cluster "
                      "full, does a task ask for more than an executor has, or do executors end at once (their logs "
                      "are on the workers)?", "unavailable")
    if slots < workers:
        raise Refused(f"the cluster has room for {slots} workers at a time, and {workers} are asked for", "unavailable")
    if slots < least:
        raise Refused(f"the cluster has room for {slots} tasks of this kind at a time, and {least} nodes are asked "
                      "for, a task each", "unavailable")
    if workers:
        return workers
    if request["all"] == "auto":
        return max(1, min(slots, executors))  # a master in this process has no other executor
    return min(slots, most)


def divide(workers, room):
    """The workers of each task, for as few tasks as there is room for; room(n): how many tasks of n workers can run at
    a time. Spark's tasks are equal, so the last ones may have room to spare."""
    for most in range(workers, 0, -1):
        tasks = -(-workers // most)
        if room(most) >= tasks:
            return [workers // tasks + (i < workers % tasks) for i in range(tasks)]
    return [1] * workers


def larger_tasks(context, workers):
    """The workers of each task, and what Spark is told of these tasks: one takes what its workers take together."""
    from py4j.protocol import Py4JJavaError
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
    conf, scala = context.getConf(), context._jsc.sc()
    if scala.isLocal():  # where nothing else runs
        return [workers], None
    amounts = [(re.fullmatch(r"spark\.task\.resource\.(.+)\.amount", name), amount)
               for name, amount in conf.getAll()]

    def profile(of_task):
        asks = TaskResourceRequests().cpus(int(conf.get("spark.task.cpus", "1")) * of_task)
        for name, amount in amounts:
            asks = asks.resource(name[1], float(amount) * of_task) if name else asks
        return ResourceProfileBuilder().require(asks).build

    def room(of_task):
        try:
            asks = profile(of_task)._java_resource_profile
            scala.resourceProfileManager().addResourceProfile(asks)
            return scala.maxNumConcurrentTasks(asks)
        except Py4JJavaError:  # more than any executor has, or no amount that a task can have
            return 0

    divided = divide(workers, room)
    return divided, profile(divided[0]) if divided[0] > 1 else None


def is_elastic(request):
    """Nodes may come later; where workers are counted, there are those that are there now, and they begin together."""
    return request["least"] < request["most"] and not request["all"]


class Stage(threading.Thread):
    def __init__(self, context, request, count, profile=None):
        super().__init__(daemon=True)
        self.context, self.request, self.count, self.profile = context, request, count, profile
        self.group = f"dtrain-{uuid.uuid4().hex}"  # of Spark's jobs: this one
        self.ends = new_ends(context)
        self.why = ""

    def run(self):
        try:
            self.context.setJobGroup(self.group, "dtrain", interruptOnCancel=True)
            program, order = self.request["program"], self.request["order"]
            tasks = self.context.parallelize(range(self.count), self.count)
            if self.profile is not None:
                tasks = tasks.withResources(self.profile)
            if DATA is None and is_elastic(self.request):
                tasks.mapPartitions(plain_task(program, order, self.ends)).collect()
            elif DATA is None:
                tasks.barrier().mapPartitions(barrier_task(program, order)).collect()
            else:
                task = data_task(program, order, DATA.schema.json(), READERS)
                DATA.mapInArrow(task, "code int", barrier=True).collect()
            self.why = "its task has ended"
        except Exception as error:
            self.why = why_of(error)

    def cancel(self):
        """Of a session that goes on."""
        try:
            self.context.cancelJobGroup(self.group)
        except Exception:
            pass  # the session has been stopped

    def tell_of_ends(self):
        told = set()
        is_over = False
        while not is_over:
            self.join(POLL_SECONDS)
            is_over = not self.is_alive()
            rest = dict.fromkeys(range(self.count), self.why) if is_over else {}
            for agent, why in {**rest, **self.ends.value}.items():
                if agent not in told:
                    told.add(agent)
                    say(lost=agent, why=why)


def start(request):
    if CONTEXT is None:
        pyspark = import_pyspark()
        conf = configure(pyspark, request)
        take_one_node(conf, request)
        workers = workers_of_a_task(conf, request)
        context = connect(pyspark, conf, request["order"]["job"])
    else:
        context = CONTEXT
        workers = workers_of_a_task(context.getConf(), request)
    count = choose_tasks(context, request)
    placed, profile = [workers] * count, None
    if counts_workers(request):
        placed, profile = larger_tasks(context, count)
    if request["looks"]:
        conf = context.getConf()
        takes = {"CPU": float(conf.get("spark.task.cpus", "1")), "GPU": float(conf.get(GPUS, "0"))}
        say(placed=[{"host": f"task {i}", "workers": each,
                     "takes": {name: amount * (placed[0] if profile else 1) for name, amount in takes.items()}}
                    for i, each in enumerate(placed)])
        return lambda: None if CONTEXT else context.stop()
    stage = Stage(context, request, len(placed), profile)
    stage.start()
    # Spark itself says up to 10 s late that a task has started, and where: the agents say that sooner.
    say(placed=[{"host": f"task {i}", "workers": each} for i, each in enumerate(placed)], named_by_cards=True,
        begins_late=DATA is not None)
    threading.Thread(target=stage.tell_of_ends, daemon=True).start()

    def end():
        if CONTEXT is None:
            context.stop()
        else:
            stage.cancel()

    return end


serve("Spark", start)
