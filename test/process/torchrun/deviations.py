"""The reviewed differences between torchrun and dtrain. One that the comparison finds and no entry here covers fails
the test; so does an entry that covers nothing any more. docs/migrating.md tells users about each, by its id."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Deviation:
    """`fields`, `cases`: patterns as of a shell. `torchrun`, `dtrain`: patterns of the two values, "" if not there."""
    id: str
    why: str
    fields: tuple
    cases: str = "*"
    names: str = "torchrun run"  # what dtrain was called as; under each of them it must occur
    torchrun: str = ".*"
    dtrain: str = ".*"
    versions: str = "2.11 2.15"
    always: bool = True          # False: depends on the machine or on timing, so that it need not occur


STARTS = ("code", "started")  # one refuses what the other starts

# What dtrain does otherwise, and means to.
MEANT = [
    Deviation("own-variables", "what a worker may want to know of dtrain, under names of its own",
              ("env.DTRAIN_*",), torchrun=""),
    Deviation("loopback-address", "the store listens on the loopback address, and a number needs no lookup",
              ("env.MASTER_ADDR",), torchrun="localhost", dtrain="127.0.0.1"),
    Deviation("absolute-error-file", "an absolute path holds after a worker has changed its folder",
              ("env.TORCHELASTIC_ERROR_FILE*",), torchrun="[^/<].*", dtrain="<root>/.*"),
    Deviation("no-empty-folders", "no folder in TMPDIR or --log-dir that nothing was written into",
              ("file *",), torchrun="a folder", dtrain=""),
    Deviation("report-file", "the failure report also as JSON, beside the logs", ("file */report.json",), torchrun="",
              dtrain="a report"),
    Deviation("report-file", "and where it is", ("says the report's file",), torchrun="", dtrain="yes"),
    Deviation("kept-id", "an id that the user gave is kept; torchrun 2.15 replaces it where it takes a free port",
              ("env.TORCHELASTIC_RUN_ID", "env.TORCHELASTIC_ERROR_FILE*", "file *"),
              cases="standalone-overrides id-default pet-standalone", versions="2.15"),
    Deviation("kept-id", "and 2.11 with --standalone",
              ("env.TORCHELASTIC_RUN_ID", "env.TORCHELASTIC_ERROR_FILE*", "file *"),
              cases="standalone-overrides pet-standalone", versions="2.11"),
    Deviation("fresh-id", "a job that nobody named has a name of its own, not none",
              ("env.TORCHELASTIC_RUN_ID",), torchrun="none", dtrain="<id>"),
    Deviation("worker-code", "the code of the first failing worker; torchrun always answers 1", ("code",),
              cases="fails fails-255 fails-as-usage fails-segv fails-kill fails-others-clean restart-fails "
              "events-console-failure", names="run", torchrun="1"),
    Deviation("stopped-code", "128 + the signal that stopped the job; torchrun answers 1", ("code",),
              cases="stopped-*", torchrun="1", dtrain="1[234]."),
    Deviation("refusal-code", "2, 126 or 127 and one line; torchrun answers 1 with a traceback", ("code",),
              torchrun="1", dtrain="2|12[67]",
              cases="bad-* no-python-* python-exec-missing virtual-local-rank-few"),
    Deviation("refusal-code", "and `dtrain launch`", ("code",), names="run", torchrun="1", dtrain="2",
              cases="launch-no-python"),
    Deviation("missing-script", "a script that is not there is told before a worker starts, with 127",
              ("code", "first failure", "report"), cases="missing-script"),
    Deviation("laxer-abbreviations", "two spellings of one flag are no ambiguity", STARTS, cases="ambiguous-spellings",
              torchrun="2|0", dtrain="0|2"),
    Deviation("own-flags", "dtrain's own flags are understood by the name torchrun too", ("code", "started", "stdout"),
              cases="own-flag version"),
    Deviation("help-text", "help that fits a screen", ("stdout",), cases="help help-letter"),
    Deviation("start-line", "one line says what is started; --quiet keeps it", ("says a start",), torchrun="",
              dtrain="yes"),
    Deviation("restart-line", "a restart is told when it happens", ("says a restart",), torchrun="", dtrain="yes",
              cases="restart restart-fails pet-restarts"),
    Deviation("flags-without-effect", "a flag that does nothing here is named once", ("says flags without effect",),
              torchrun="", dtrain="yes"),
    Deviation("flags-without-effect", "torchrun warns although the address was not given",
              ("says the master address is not used",), cases="c10d-no-endpoint", torchrun="yes", dtrain=""),
    Deviation("no-node-rank-warning", "no warning that --node-rank does not choose the rank under c10d",
              ("says the node rank is not used",), cases="node-rank-c10d", torchrun="yes", dtrain="", versions="2.15"),
    Deviation("no-parent-warning", "no complaint that dtrain itself was not started by a torchrun",
              ("says the parent's error file",), torchrun="yes", dtrain=""),
    Deviation("rank-prefix", "dtrain run names the rank in front of each line, teed or not",
              ("stdout", "stderr", "file */filtered_*"),
              names="run", dtrain=r"\[\d\] .*"),
    Deviation("dollars-stay", "dtrain run passes on $$ as it is: only ${local_rank} is replaced",
              ("argv", "command"), names="run", cases="dollars"),
    Deviation("executed-directly", "dtrain run executes what is no Python program; --no-python is not needed",
              STARTS, names="run", cases="executable-as-python"),
    Deviation("stricter-maps", "dtrain run refuses a rank that the job has not", STARTS, names="run",
              cases="tee-map-beyond ranks-filter-nobody"),
    Deviation("signal-names", "an unknown signal is a mistake, not a warning", STARTS, names="run",
              cases="bad-signals-to-handle-*"),
    Deviation("own-report", "dtrain run has a report of its own, with the first failure as its headline",
              ("report",), names="run", dtrain=""),
    Deviation("switch-words", "a switch in the environment may also be on or off in words", STARTS,
              cases="pet-switch-word"),
]

# What is being built or has just been: neither state fails the test. When done, make an entry strict, or remove it.
MOVING = [
    Deviation("signal-names", "an unknown signal is left out of what workers are told", always=False,
              fields=(*STARTS, "env.TORCHELASTIC_SIGNALS_TO_HANDLE", "env.TORCHINDUCTOR_CACHE_DIR", "says *"),
              cases="bad-signals-to-handle-*"),
    Deviation("more-in-report", "torchrun's layout, and below it the last lines of stderr and a hint", ("report",),
              names="torchrun", dtrain=r".*(last lines of stderr|hint:|error_file: <root>).*", always=False),
    Deviation("run-path-process", "--run-path starts Python anew: a session and descriptors of its own",
              ("command*", "other descriptors*", "own session*"), cases="*run-path*", always=False),
    Deviation("failed-event", "the agent's last event says FAILED when the job failed; torchrun's says SUCCEEDED",
              ("events",), cases="events-console-failure", always=False),
    Deviation("launch-advice", "dtrain launch says in one line what torch.distributed.launch says in seven",
              ("says the local rank's argument",), names="run", cases="launch*", always=False),
    Deviation("use-env", "--use-env is understood by torchrun's name too", STARTS,
              cases="launch-flag-elsewhere", always=False),
    Deviation("numa-without-gpus", "--numa-binding needs neither numactl nor a GPU", (*STARTS, "says *"),
              cases="bad-numa-binding-35", always=False),
    Deviation("not-yet-elastic", "a number of nodes between bounds", STARTS, cases="c10d-elastic", always=False),
    Deviation("not-yet-checked", "values of flags without effect are not looked at", STARTS,
              cases="bad-*monitor-interval* bad-*master-port* bad-start-method-* bad-rdzv-*", always=False),
    Deviation("not-yet-null-tee", "-t with --log-dir /dev/null is no tee", ("stdout", "stderr"), names="torchrun",
              cases="log-dir-null-tee", always=False),
]

DEVIATIONS = MEANT + MOVING
