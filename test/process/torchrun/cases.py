"""The command lines of the comparison, by what they are about. `<root>` is the folder that a case runs in."""
import re

from sides import Case

TWO = "--nproc-per-node 2"
ADDED = "2.15"  # flags that torch 2.11 has not


def refused(name, args, torchrun, dtrain, **more):
    """A mistake: what torchrun and dtrain must say about it."""
    return Case(name, args, says=(torchrun, dtrain), **more)


def pet(name, args="probe.py", versions="2.11 2.15", do="", **variables):
    return Case("pet-" + name, args, env=tuple((f"PET_{k.upper()}", v) for k, v in variables.items()),
                versions=versions, do=do)


SPELLING = [
    Case("plain", "probe.py", real=True),
    Case("two", f"{TWO} probe.py a b", real=True),
    Case("underscore", "--nproc_per_node 2 probe.py"),
    Case("equals", "--nproc-per-node=2 probe.py"),
    Case("short-glued", f"{TWO} --log-dir logs -t3 probe.py"),
    Case("short-equals", f"{TWO} --log-dir logs -r=3 probe.py"),
    Case("short-module", "-m probe a"),
    Case("long-module", "--module probe"),
    Case("letters-joined", "-mt 3 --log-dir logs probe"),
    Case("abbreviated", "--redirect 3 --log-dir logs probe.py"),
    Case("abbreviated-equals", "--te=3 --log-dir logs probe.py"),
    Case("abbreviated-switch", "--stand probe.py"),
    refused("ambiguous-spellings", "--nproc 2 probe.py", "ambiguous option: --nproc could match", ""),
    refused("ambiguous-log", "--log logs probe.py", "ambiguous option: --log could match", "--log could mean"),
    Case("abbreviated-spelling", "--log-d logs --redi 3 probe.py"),
    refused("ambiguous", "--no probe.py", "ambiguous option: --no", "--no could mean"),
    refused("ambiguous-rdzv", "--rdzv=x probe.py", "ambiguous option: --rdzv", "--rdzv could mean"),
    Case("last-wins", f"--nproc-per-node 3 {TWO} --role a --role b -t 0 -t 3 --log-dir x --log_dir logs probe.py"),
    Case("last-wins-spelling", "--nproc-per-node 1 --nproc_per_node 2 probe.py"),
    refused("unknown-flag", "--nope probe.py", "unrecognized arguments: --nope", "unknown flag --nope", real=True),
    refused("unknown-letter", "-x probe.py", "unrecognized arguments: -x", "unknown flag -x"),
    refused("no-value", "--nproc-per-node", "expected one argument", "--nproc-per-node needs a value"),
    refused("no-value-letter", "-t", "expected one argument", "needs a value"),
    refused("no-program", "", "the following arguments are required: training_script", "no program given"),
    refused("no-program-flags", TWO, "the following arguments are required", "no program given"),
    refused("value-for-switch", "--standalone=1 probe.py", "ignored explicit argument '1'",
            "standalone takes no value"),
    refused("own-flag", "--quiet probe.py", "unrecognized arguments: --quiet", ""),
    refused("version", "--version", "unrecognized arguments: --version|the following arguments", ""),
    Case("help", "--help"),
    Case("help-letter", "-h"),
    Case("dashes", "-- probe.py --x"),
    Case("completion", "--print-completion bash", versions=ADDED),
]

ARGUMENTS = [
    Case("verbatim", "probe.py --nproc-per-node 4 -t 3 -m --standalone --help --a=b -x --nope"),
    Case("verbatim-dashes", "probe.py a -- b --"),
    Case("verbatim-odd", "probe.py '' ' ' 'a b' 'ünï' '*' '~' \"'\" '\"' '\\'"),
    Case("verbatim-newline", "probe.py 'a\nb' '-'"),
    Case("local-rank", f"{TWO} probe.py '${{local_rank}}' '$local_rank' 'a${{local_rank}}b' --x=$local_rank"),
    Case("local-rank-not", f"{TWO} probe.py '$local_rankx' '${{local_rank' '${{LOCAL_RANK}}' '${{ local_rank }}'"),
    Case("other-macros", "probe.py '${rank}' '$HOME' '${role_name}' '$1' '$' '${}' '50%' '%s' '{x}'"),
    Case("dollars", "probe.py '$$' '$$$$' '$$local_rank' '$${local_rank}' '$$$local_rank' 'a$'"),
    Case("stdin", "probe.py", do="0: echo", stdin="one\ntwo\n"),
]

PROGRAMS = [
    Case("executable-as-python", "probe a"),
    Case("no-python", "--no-python ./probe a b"),
    Case("no-python-path", f"{TWO} --no_python python3 probe.py c"),
    Case("no-python-script", "--no-python ./probe.py"),
    Case("no-ending", "./plain a"),
    Case("standard-input", "-", stdin="pass\n"),
    Case("folder", "folder a"),
    Case("absolute", "<root>/cwd/probe.py"),
    Case("dotted", "./probe.py"),
    Case("run-path", "--run-path <root>/cwd/probe.py a b"),
    Case("run-path-two", f"{TWO} --run_path <root>/cwd/probe.py"),
    Case("run-path-no-python", "--run-path --no-python <root>/cwd/probe.py"),
    Case("python-exec", "probe.py a", env=(("PYTHON_EXEC", "/usr/bin/python3"),)),
    Case("python-exec-module", "-m probe a", env=(("PYTHON_EXEC", "/usr/bin/python3"),)),
    refused("python-exec-missing", "probe.py", "No such file or directory: '/nowhere/python'",
            "PYTHON_EXEC=/nowhere/python", env=(("PYTHON_EXEC", "/nowhere/python"),)),
    refused("no-python-missing", "--no-python ./nowhere", "No such file or directory: './nowhere'",
            "./nowhere: no such file"),
    refused("no-python-not-executable", "--no-python ./file", "Permission denied: './file'", "is not executable"),
    refused("no-python-module", "--no-python -m probe", "Don't use both the '--no-python' flag", "--no-python"),
    refused("missing-script", "nowhere.py", "nowhere.py FAILED", "nowhere.py: no such file"),
    Case("missing-module", "-m nowhere"),
    refused("no-python-not-in-path", "--no-python nowhere-at-all", "No such file", "nowhere-at-all: not in PATH"),
]

MEETING = [
    Case("standalone", f"--standalone {TWO} probe.py"),
    Case("standalone-overrides", "--standalone --rdzv-id mine --rdzv-backend static --rdzv-endpoint x:1 probe.py"),
    Case("id-default", "--rdzv-id mine probe.py"),
    Case("c10d-free-port", f"--rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id mine {TWO} probe.py"),
    Case("c10d-port", f"--rdzv-backend=c10d --rdzv-endpoint=localhost:29411 --rdzv-id=mine {TWO} probe.py"),
    Case("c10d-address", "--rdzv-backend c10d --rdzv-endpoint 127.0.0.1:29412 --rdzv-id mine probe.py"),
    Case("c10d-no-endpoint", "--rdzv-backend c10d --rdzv-id mine probe.py"),
    Case("c10d-conf", "--rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id mine "
         "--rdzv-conf join_timeout=30,read_timeout=20,nonsense=1 probe.py"),
    Case("c10d-elastic", "--nnodes 1:2 --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id mine "
         "--rdzv-conf last_call_timeout=1 probe.py"),
    Case("static-port", f"--master-port 29413 {TWO} probe.py"),
    Case("static-address", f"--nnodes 1 --node-rank 0 --master-addr 127.0.0.1 --master-port 29414 {TWO} probe.py"),
    Case("static-name", "--nnodes=1 --node_rank=0 --master_addr=localhost --master_port=29415 probe.py"),
    Case("static-endpoint", "--rdzv-backend static --rdzv-endpoint 127.0.0.1:29416 --rdzv-id mine probe.py"),
    Case("static-id", "--rdzv-id mine --master-port 29417 probe.py"),
    Case("nnodes-range", f"--nnodes 1:1 {TWO} probe.py"),
    Case("standalone-range", "--standalone --nnodes 1:2 --rdzv-conf last_call_timeout=1 probe.py"),
    Case("static-no-port", "--rdzv-endpoint localhost --rdzv-id mine probe.py"),
    Case("static-ipv6", "--master-addr '[::1]' --master-port 29418 probe.py"),
    Case("name-with-slash", "--rdzv-id me/exp probe.py", versions=ADDED),
    Case("local-addr", "--local-addr 127.0.0.1 probe.py"),
    Case("node-rank-c10d", "--node-rank 1 --rdzv-backend c10d --rdzv-endpoint localhost:0 --rdzv-id mine probe.py"),
    Case("monitor-interval", "--monitor-interval 0.05 probe.py"),
    Case("start-method", "--start-method fork probe.py"),
    Case("threads-set", f"{TWO} probe.py", env=(("OMP_NUM_THREADS", "3"),)),
    Case("nccl-set", "probe.py", env=(("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"),)),
    Case("inherited", "probe.py", env=(("RANK", "7"), ("MASTER_PORT", "1"), ("WORLD_SIZE", "99"), ("EMPTY", ""),
                                       ("TORCHELASTIC_RUN_ID", "x"), ("TORCHELASTIC_ERROR_FILE", "<root>/tmp/up"))),
    Case("cpu", "--nproc-per-node cpu probe.py"),
    Case("auto", "--nproc-per-node auto probe.py"),
    Case("virtual-local-rank", f"--virtual-local-rank {TWO} probe.py", env=(("CUDA_VISIBLE_DEVICES", "4,5"),)),
    Case("virtual-local-rank-unset", f"--virtual-local-rank {TWO} probe.py"),
    refused("virtual-local-rank-few", f"--virtual-local-rank {TWO} probe.py", "ValueError", "CUDA_VISIBLE_DEVICES",
            env=(("CUDA_VISIBLE_DEVICES", "4"),)),
]

OUTPUT = [
    Case("tee", f"{TWO} -t 3 --log-dir logs probe.py", real=True),
    Case("tee-stdout", f"{TWO} -t 1 --log-dir logs probe.py"),
    Case("tee-stderr", f"{TWO} --tee=2 --log-dir logs probe.py"),
    Case("tee-map", f"{TWO} -t 0:3,1:2 --log-dir logs probe.py"),
    Case("tee-map-beyond", f"{TWO} -t 1:3,5:3 --log-dir logs probe.py"),
    Case("redirects", f"{TWO} -r 3 --log-dir logs probe.py"),
    Case("redirects-map", f"{TWO} --redirects 0:1,1:2 --log-dir logs probe.py"),
    Case("redirects-and-tee", f"{TWO} -r 3 -t 0:1 --log-dir logs probe.py"),
    Case("log-dir-default", f"{TWO} -r 3 probe.py"),
    Case("log-dir-nested", f"{TWO} -r 3 --log-dir new/deep/logs --rdzv-id mine --master-port 29420 probe.py"),
    Case("log-dir-null", f"{TWO} --log-dir /dev/null probe.py"),
    Case("log-dir-null-tee", f"{TWO} --log-dir /dev/null -t 3 probe.py"),
    Case("log-dir-null-redirects", f"{TWO} --log-dir /dev/null -r 3 -t 0:1 probe.py"),
    Case("log-dir-alone", f"{TWO} --log-dir logs probe.py"),
    Case("role-prefix", f"{TWO} --role trainer -t 3 --log-dir logs probe.py"),
    Case("template", f"{TWO} -t 3 --log-dir logs --log-line-prefix-template '${{rank}}/${{role_name}}> ' probe.py",
         versions=ADDED),
    Case("template-odd", f"{TWO} -t 3 --log-dir logs --log-line-prefix-template '$local_rank $$ ${{nope}} $rank:' "
         "probe.py", versions=ADDED),
    Case("template-env", f"{TWO} -t 3 --log-dir logs probe.py",
         env=(("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${rank}> "),)),
    Case("ranks-filter", f"{TWO} --local-ranks-filter 1 -t 3 --log-dir logs probe.py"),
    Case("ranks-filter-blanks", f"{TWO} --local-ranks-filter '0, 1' --log-dir logs probe.py"),
    Case("ranks-filter-raw", f"{TWO} --local_ranks_filter=0 --log-dir logs probe.py"),
    Case("ranks-filter-redirects", f"{TWO} --local-ranks-filter 0,1 -r 3 --log-dir logs probe.py"),
    Case("ranks-filter-nobody", f"{TWO} --local-ranks-filter 7 -t 3 --log-dir logs probe.py"),
    Case("duplicate", f"{TWO} -t 3 --duplicate-stdout-filters apple --duplicate-stderr-filters '1 or,nothing' "
         "--log-dir logs probe.py"),
    Case("duplicate-comma", f"{TWO} -t 3 --duplicate_stdout_filters 'a,,b,apple' --log-dir logs probe.py"),
    Case("duplicate-untold", f"{TWO} --duplicate-stdout-filters apple --log-dir logs probe.py"),
    Case("events-console", f"{TWO} --event-log-handler console probe.py"),
    Case("events-console-failure", f"{TWO} --event-log-handler console probe.py", do="1: exit 3; *: wait"),
    Case("logs-specs", "--logs-specs default probe.py"),
]

FAILURES = [
    Case("fails", f"{TWO} probe.py", do="1: exit 3; *: wait", real=True),
    Case("fails-alone", "probe.py", do="0: exit 1"),
    Case("fails-255", "probe.py", do="0: exit 255"),
    Case("fails-as-usage", "probe.py", do="0: exit 2"),
    Case("fails-segv", f"{TWO} probe.py", do="0: signal SEGV; *: wait"),
    Case("fails-kill", f"{TWO} probe.py", do="1: signal KILL; *: wait"),
    Case("fails-raise", f"{TWO} -r 2 --log-dir logs probe.py", do="1: raise boom; *: wait"),
    Case("fails-record", f"{TWO} --log-dir logs probe.py", do="1: record boom; *: wait"),
    Case("fails-record-parent", "--log-dir logs probe.py", do="0: record boom",
         env=(("TORCHELASTIC_ERROR_FILE", "<root>/tmp/parent.json"),)),
    Case("fails-others-clean", f"{TWO} probe.py", do="1: exit 9; *: term 0"),
    Case("restart", f"{TWO} --max-restarts 1 -r 3 --log-dir logs --rdzv-id mine --master-port 29430 probe.py",
         do="1@0: exit 3; *@0: wait"),
    Case("restart-fails", f"{TWO} --max-restarts=1 -t 3 --log-dir logs --rdzv-id mine --master-port 29431 probe.py",
         do="1: exit 3; *: wait"),
    Case("restart-unused", "--max-restarts 3 probe.py"),
    Case("stopped-term", f"{TWO} probe.py", do="*: wait", send="TERM", workers=2),
    Case("stopped-int", f"{TWO} probe.py", do="*: wait", send="INT", workers=2),
    Case("stopped-hup", "probe.py", do="*: wait", send="HUP"),
    Case("stopped-quit", "probe.py", do="*: wait", send="QUIT"),
    Case("stopped-clean", f"{TWO} probe.py", do="*: term 0", send="TERM", workers=2),
    Case("stopped-usr1", "--signals-to-handle SIGTERM,SIGUSR1 probe.py", do="*: wait", send="USR1"),
    Case("unhandled-usr1", f"{TWO} probe.py", do="*: wait", send="USR1", workers=2, orphans=True),
    Case("stopped-ignoring", "--shutdown-timeout 1 probe.py", do="*: ignore", send="TERM", versions=ADDED),
]

PET = [
    pet("workers", nproc_per_node="2"),
    pet("kubeflow", nnodes="1", nproc_per_node="2", node_rank="0", master_addr="127.0.0.1", master_port="29440"),
    pet("rdzv", rdzv_backend="c10d", rdzv_endpoint="localhost:0", rdzv_id="mine", rdzv_conf="timeout=60"),
    pet("standalone", standalone="1", rdzv_id="mine"),
    pet("standalone-off", standalone="0", rdzv_id="mine", master_port="29441"),
    pet("restarts", max_restarts="1", monitor_interval="0.2", do="0@0: exit 3"),
    pet("role", role="trainer", start_method="fork", event_log_handler="null", local_addr="127.0.0.1"),
    pet("module", "probe a", module="1"),
    pet("no-python", "./probe a", no_python="1"),
    pet("run-path", "<root>/cwd/probe.py", run_path="1"),
    pet("output", nproc_per_node="2", log_dir="logs", redirects="2", tee="1"),
    pet("template", tee="3", log_dir="logs", log_line_prefix_template="<${rank}>", versions=ADDED),
    pet("ranks-filter", nproc_per_node="2", tee="3", log_dir="logs", local_ranks_filter="1"),
    pet("duplicate", tee="3", log_dir="logs", duplicate_stdout_filters="apple", duplicate_stderr_filters="orange"),
    pet("signals", signals_to_handle="SIGTERM,SIGUSR2"),
    pet("shutdown-timeout", shutdown_timeout="5", versions=ADDED),
    pet("virtual-local-rank", virtual_local_rank="1", nproc_per_node="2"),
    pet("switches-off", module="0", no_python="0", run_path="0", virtual_local_rank="0"),
    pet("switch-word", "probe", module="yes"),
    pet("flag-wins", f"{TWO} --role b --tee 0 probe.py", nproc_per_node="3", role="a", tee="3"),
]

PET_BAD = [
    refused("bad-pet-" + name.lower().replace("_", "-"), "probe.py", torchrun, f"PET_{name}",
            env=((f"PET_{name}", value),))
    for name, value, torchrun in [
        ("MAX_RESTARTS", "x", "invalid int value: 'x'"), ("MONITOR_INTERVAL", "x", "invalid float value: 'x'"),
        ("NODE_RANK", "x", "invalid int value: 'x'"), ("MASTER_PORT", "x", "invalid int value: 'x'"),
        ("STANDALONE", "x", "invalid literal for int"), ("MODULE", "maybe", "invalid literal for int"),
        ("NNODES", "x", "invalid literal for int"), ("NPROC_PER_NODE", "x", "Unsupported nproc_per_node value: x"),
        ("TEE", "x", "x"), ("LOCAL_RANKS_FILTER", "x", "must be a comma-separated list of integers"),
    ]
]


def bad(flag, value, torchrun, dtrain=None, **more):
    name = re.sub("[^A-Za-z0-9.]+", "-", f"bad{flag}-{value}")
    return refused(name, f"{flag} '{value}' probe.py", torchrun, dtrain or flag, **more)


NO_GPU = (("CUDA_VISIBLE_DEVICES", ""),)
BAD = [
    bad("--nnodes", "x", "invalid literal for int.*'x'"),
    bad("--nnodes", "0", "min_nodes must be > 0"),
    bad("--nnodes", "2:1", "min_nodes=2, max_nodes=1"),
    bad("--nnodes", "1:2:3", "is not in \"MIN:MAX\" format"),
    bad("--nproc-per-node", "x", "Unsupported nproc_per_node value: x"),
    bad("--nproc-per-node", "gpu", "Cuda is not available"),
    bad("--nproc-per-node", "xpu", "Xpu is not available"),
    bad("--nproc-per-node", "0", "AssertionError"),
    bad("--nproc-per-node", "1.5", "Unsupported nproc_per_node value: 1.5"),
    bad("--max-restarts", "x", "--max-restarts/--max_restarts: invalid int value: 'x'"),
    bad("--max-restarts", "-1", "max_restarts must be >= 0"),
    bad("--max-restarts", "1.5", "invalid int value: '1.5'"),
    bad("--monitor-interval", "x", "--monitor-interval/--monitor_interval: invalid float value: 'x'"),
    bad("--start-method", "nope", "invalid choice: 'nope'"),
    bad("--event-log-handler", "nope", "nope"),
    bad("--rdzv-backend", "nope", "'nope' is not registered"),
    bad("--rdzv-conf", "a", "The rendezvous configuration option 'a' must have a value"),
    bad("--rdzv-conf", "=b", "The rendezvous configuration"),
    bad("--rdzv-endpoint", "localhost:x", "port number|Error"),
    bad("--node-rank", "x", "invalid int value: 'x'"),
    bad("--master-port", "x", "invalid int value: 'x'"),
    bad("--master-port", "99999", "99999"),
    bad("--redirects", "4", "4"),
    bad("--tee", "0:4", "0:4"),
    bad("--tee", "0:1,", "0:1,"),
    bad("--tee", "x", "x"),
    bad("--local-ranks-filter", "a,b", "must be a comma-separated list of integers"),
    bad("--log-dir", "file", "file", dtrain="file"),
    bad("--logs-specs", "nope", "Could not find entrypoint"),
    bad("--numa-binding", "nope", "invalid choice: 'nope'"),
    bad("--shutdown-timeout", "x", "invalid int value: 'x'", versions=ADDED),
    bad("--shutdown-timeout", "-1", "shutdown_timeout|non-negative", versions=ADDED),
    bad("--signals-to-handle", "SIGNOPE", "SIGNOPE"),
    bad("--print-completion", "nope", "invalid choice: 'nope'", versions=ADDED, dtrain="nope"),
    bad("--numa-binding", "node", "numactl|No accelerator|NVIDIA driver", env=NO_GPU),
    bad("--monitor-interval", "0x1", "invalid float value: '0x1'"),
    bad("--monitor-interval", "0", "AssertionError"),
    bad("--standalone --node-rank", "x", "invalid int value: 'x'", dtrain="--node-rank"),
    bad("--standalone --master-port", "1.5", "invalid int value: '1.5'", dtrain="--master-port"),
    bad("--rdzv-backend c10d --master-port", "x", "invalid int value: 'x'", dtrain="--master-port"),
    bad("--standalone --rdzv-conf", "a", "'a' must have a value", dtrain="--rdzv-conf"),
    *(bad("--standalone --rdzv-conf", pair, why, dtrain="--rdzv-conf", **more) for pair, why, more in [
        ("join_timeout=x", "'join_timeout' does not represent a valid integer", {}),
        ("last_call_timeout=-1", "last_call timeout .* must be positive", {}),
        ("close_timeout=0", "close timeout .* must be positive", {}),
        ("heartbeat_timeout=1.5", "'heartbeat_timeout' does not represent a valid integer", {}),
        ("read_timeout=0", "read timeout must be a positive integer", {}),
        ("keep_alive_interval=x", "'keep_alive_interval' does not represent a valid integer", {}),
        ("is_host=maybe", "'is_host' does not represent a valid boolean", {}),
        ("store_type=redis", "Invalid store type", {}),
        ("cas_backoff_max_seconds=x", "is not a valid float", {"versions": ADDED}),
    ]),
    bad("--rdzv-endpoint localhost:29450 --rdzv-conf", "timeout=x", "invalid literal for int", dtrain="--rdzv-conf"),
]

# Values of no use that neither refuses.
UNUSED = [
    Case("unused-numbers", "--standalone --node-rank=-7 --master-port 99999 probe.py"),
    Case("unused-node-rank", "--node-rank=-1 probe.py", versions=ADDED),
    Case("unused-endpoint", "--standalone --rdzv-endpoint a:b:c --rdzv-backend nope probe.py"),
    Case("unused-empty-endpoint", "--rdzv-endpoint '' probe.py"),
    Case("unused-conf-static", "--master-port 29451 --rdzv-conf join_timeout=x,is_host=x,rank=5 probe.py"),
    Case("unused-conf-c10d", "--standalone --rdzv-conf timeout=x,cas_backoff_max_seconds=1e-3,is_host=Yes probe.py"),
    Case("python-numbers", "--nnodes ' 1' --nproc-per-node=+2 --monitor-interval ' 1_0e-2 ' --max-restarts 0_0 "
         "--node-rank=+0 --master-port '29_452' probe.py"),
    Case("fraction-of-shutdown", "--shutdown-timeout 1.5 probe.py", versions=ADDED),
    Case("many-restarts", "--max-restarts 1000000000 probe.py"),
    Case("fraction-of-a-second", "--standalone --rdzv-conf last_call_timeout=0.5 probe.py"),
    Case("file-store", "--rdzv-backend c10d --rdzv-endpoint <root>/tmp/store --rdzv-conf store_type=file "
         "--rdzv-id mine probe.py"),
]

STATIC = f"{TWO} --nnodes 2 --master-addr 127.0.0.1 --master-port <port> --rdzv-id mine"
C10D = f"{TWO} --rdzv-backend c10d --rdzv-endpoint localhost:<port> --rdzv-id mine"
AGENTS = [
    Case("agents-static", f"{STATIC} probe.py", agents=("--node-rank 0", "--node-rank 1")),
    Case("agents-static-endpoint", f"{TWO} --nnodes 2 --rdzv-endpoint 127.0.0.1:<port> --rdzv-id mine probe.py",
         agents=("--node-rank 0", "--node-rank 1")),
    Case("agents-roles", f"{STATIC} probe.py", agents=("--node-rank 0 --role a", "--node-rank 1 --role b")),
    Case("agents-c10d", f"{C10D} --nnodes 2 probe.py", agents=("", "")),
    Case("agents-three", f"{C10D} --nnodes 3 probe.py", agents=("", "", "")),
    Case("agents-elastic", f"{C10D} --nnodes 1:3 --rdzv-conf last_call_timeout=5 probe.py", agents=("", "", "")),
    Case("agents-elastic-few", f"{C10D} --nnodes 1:3 --rdzv-conf last_call_timeout=3 probe.py", agents=("", "")),
    Case("agents-fail", f"{STATIC} probe.py", agents=("--node-rank 0", "--node-rank 1"), do="3: exit 7; *: wait",
         env=(("PROBE_ALARM", "8"),)),
    Case("agents-restart", f"{STATIC} --max-restarts 1 probe.py", agents=("--node-rank 0", "--node-rank 1"),
         do="3@0: exit 7; *@0: wait", env=(("PROBE_ALARM", "8"),)),
]

LEGACY = [
    Case("launch", f"{TWO} probe.py a", legacy=True, real=True),
    Case("launch-use-env", f"{TWO} --use-env probe.py a", legacy=True),
    Case("launch-use-env-underscore", "--use_env probe.py", legacy=True),
    Case("launch-module", "-m probe b", legacy=True),
    refused("launch-no-python", "--no-python ./probe", "you must also set the '--use-env' flag",
            "--use-env|unknown command launch",
            legacy=True),
    Case("launch-no-python-use-env", "--no-python --use-env ./probe c", legacy=True),
    refused("launch-flag-elsewhere", "--use-env probe.py", "unrecognized arguments: --use-env", "--use-env"),
]

CASES = SPELLING + ARGUMENTS + PROGRAMS + MEETING + OUTPUT + FAILURES + PET + PET_BAD + BAD + UNUSED + AGENTS + LEGACY
assert len({case.name for case in CASES}) == len(CASES), "two cases of one name"
