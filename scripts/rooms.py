"""The rooms of each folder: sub-folders of one idea. docs/architecture.md draws them, docs/adr/0103-rooms.md says why;
tidy.py checks them.

A room may include itself, the `base` beside it, and the rooms of its list. A list can name only rooms that stand above
it, so a circle cannot be written down. In strategies/comm a name means the room beside it, if there is one.
"""

# folder: {room: the rooms that it may include}
ROOMS = {
    "rendezvous": {
        "base": "",
        "crypto": "",
        "net": "",
        "rounds": "",
        "store": "",
        "credentials": "crypto net",
        "election": "rounds",
        "munge": "credentials net",
        "pmi": "credentials",
        "tls": "credentials crypto net",
        "agent_link": "credentials crypto munge net rounds store tls",
        "http": "credentials net tls",
        "etcd": "credentials http net tls",
        "store_relay": "net store tls",
        "store_server": "net store store_relay tls",
        "server": "agent_link credentials rounds store store_server",
    },
    "launcher": {
        "base": "",
        "engine_wire": "",
        "engines": "engine_wire",
        "ship": "engine_wire",
        "status": "",
        "job": "",
        "process": "job",
        "spill": "job",
        "terminal": "job",
        "etcd": "job process",
        "output": "job process terminal",
        "guard": "job process status",
        "front": "guard job process status",
        "hosts": "engine_wire job output process ship",
        "submit": "engine_wire engines front hosts job output process ship terminal",
        "finding": "etcd job",
        "hosting": "finding job status",
        "progress": "job",
        "logs": "job output",
        "evidence": "job logs process status",
        "events": "evidence job",
        "report": "events evidence job logs terminal",
        "service": "job status terminal",
        "agent": "evidence front guard hosting job logs output process progress report spill status terminal",
        "replicas": "agent front job output process terminal",
    },
    "cli": {
        "base": "",
        "children": "",
        "gpus": "children",
        "table": "",
        "help": "table",
        "machine": "children gpus",
        "parse": "table",
        "ckpt": "table",
        "estimate": "ckpt machine parse table",
        "flight": "table",
        "logs": "table",
        "nodes": "machine table",
        "options": "machine parse",
        "config": "machine options parse table",
        "engines": "machine nodes options parse",
        "data": "config engines machine nodes options parse table",
        "program": "children machine",
        "doctor": "children engines gpus machine nodes options parse program",
        "resolve": "engines machine nodes options parse program",
        "commands": "machine nodes parse",
        "run": "children config data engines help machine nodes options parse program resolve",
        "predict": "help machine options parse program run table",
    },
    "strategies": {
        "include/dtrain": "",
        "config": "",
        "torch": "",
        "extra": "",
        "comm/base": "",
        "comm/blame": "",
        "comm/kernels": "",
        "comm/memory": "kernels",
        "comm/bootstrap": "memory",
        "comm/tcp": "bootstrap memory",
        "comm/messages": "bootstrap memory tcp",
        "comm/local": "kernels memory",
        "comm/hosts": "bootstrap kernels local memory tcp",
        "comm/groups": "bootstrap hosts kernels local memory messages",
        "comm/flight": "blame groups memory",
        "comm/backend": "blame bootstrap flight groups kernels memory messages torch",
        "comm/nccl": "torch",
        "collectives": "comm/backend torch",
        "session": "collectives comm/backend comm/base comm/blame comm/nccl torch",
        "ddp": "collectives comm/base torch",
        "shard": "collectives comm/base torch",
        "optim": "comm/base extra torch",
        "parallel": "collectives config ddp optim shard torch",
        "horovod": "collectives comm/backend comm/base comm/blame session torch",
        "recompute": "torch",
        "background": "",
        "checkpoint": "background collectives comm/base torch",
        "kept": "background checkpoint collectives torch",
        "sampler": "extra",
        "python": "comm/backend comm/base torch",
        "python/dtrain": "",
    },
    "data": {
        "include/dtrain": "",
        "base": "",
        "options": "",
        "order": "",
        "recipe": "",
        "arrow": "",
        "files": "arrow",
        "parquet": "arrow files",
        "os": "",
        "cache": "os",
        "times": "",
        "share": "",
        "node": "os",
        "flow": "order parquet",
        "loader": "flow node options order parquet share times",
        "mixture": "flow loader node options order parquet",
        "shared": "os",
        "predict": "arrow files loader os parquet shared",
        "torch": "loader mixture predict",
        "abi": "loader mixture options",
        "python/dtrain_data": "",
        "source": "arrow files recipe",
        "rows": "arrow os recipe source",
        "process": "arrow recipe rows source",
        "together": "arrow os process recipe rows shared source",
        "apply": "arrow process recipe rows source",
        "entry": "cache os",
        "objects": "cache entry files os",
        "script": "cache",
        "commands": "cache entry objects script",
    },
}

# Which rooms of a lower folder the folder above may include.
FACES = {
    "launcher": {"rendezvous": "agent_link base credentials election etcd http munge net rounds server store "
                               "store_server"},
    "cli": {
        "launcher": "agent base engine_wire engines front guard hosts job logs output process replicas service "
                    "ship status submit terminal",
        "rendezvous": "base credentials munge net pmi rounds",
        "strategies": "config",
    },
    "data": {"strategies": "kept"},
}

# Rooms that hold decisions alone: no event loop, no system call, no clock. Each file of theirs has a test.
PURE_ROOMS = {
    "rendezvous/rounds", "rendezvous/election", "rendezvous/store", "launcher/job", "launcher/engine_wire",
    "launcher/engines", "cli/table",
    "cli/parse", "cli/help", "cli/nodes", "cli/options", "cli/config", "cli/engines", "cli/resolve",
    "strategies/config", "data/base", "data/options", "data/order", "data/recipe", "data/share", "data/times",
}

ROOM_FILES_MAX = 20
# The headers that programs include lie in one folder: their names are what users write, so a topic has a header.
ROOM_FILES = {"strategies/include/dtrain": 32}

# Files of these folders that have no room: programs, and how they are built.
WITHOUT_ROOM = {"cli/main.cc", "cli/fmt_static.cc", "data/main.cc"}


def table():
    """{path of a room: the paths of the rooms that it may include}. ValueError: a list names no room above its own."""
    known = {}
    for folder, rooms in ROOMS.items():
        for room, names in rooms.items():
            path = f"{folder}/{room}"
            beside = path.rpartition("/")[0]
            base = f"{beside}/base"
            allowed = {path, base} if base in known else {path}
            for name in names.split():
                target = next((p for p in (f"{beside}/{name}", f"{folder}/{name}") if p in known), None)
                if target is None:
                    raise ValueError(f"{path} may include {name}, which is no room above it")
                allowed.add(target)
            known[path] = allowed
    return known
