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


STARTS = ("code", "started")  # one refuses what the other starts

DEVIATIONS = [
    Deviation("own-variables", "what a worker may want to know of dtrain, under names of its own",
              ("env.DTRAIN_*",), torchrun=""),
    Deviation("loopback-address", "the store listens on the loopback address, and a number needs no lookup",
              ("env.MASTER_ADDR",), torchrun="localhost", dtrain="127.0.0.1"),
    Deviation("absolute-error-file", "an absolute path holds after a worker has changed its folder",
              ("env.TORCHELASTIC_ERROR_FILE*",), torchrun="[^/<].*", dtrain="<root>/.*"),
    Deviation("absolute-error-file", "in the report as well", ("report",), names="torchrun",
              cases="fails-record fails-record-parent", torchrun=".*error_file: logs/.*",
              dtrain=".*error_file: <root>/.*"),
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
    Deviation("worker-code", "of all agents", ("code",), cases="agents-fail", names="run", torchrun="1 1",
              dtrain="7 7"),
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
              ("says the node rank is not used",), cases="node-rank-c10d unused-numbers", torchrun="yes", dtrain="",
              versions="2.15"),
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
    Deviation("signal-names", "by the name torchrun it is left out of what workers are told, not of the warning",
              ("env.TORCHELASTIC_SIGNALS_TO_HANDLE", "env.TORCHINDUCTOR_CACHE_DIR"), names="torchrun",
              cases="bad-signals-to-handle-*", dtrain=""),
    Deviation("more-in-report", "below what torchrun says of a worker: its last lines of stderr and a hint",
              ("more in report",), names="torchrun", torchrun=""),
    Deviation("run-path-process", "--run-path starts Python anew: a session of its own, and no descriptors of others",
              ("command*", "other descriptors*", "own session*"), cases="*run-path*"),
    Deviation("failed-event", "the agent's last event says FAILED when the job failed; torchrun's says SUCCEEDED",
              ("events",), cases="events-console-failure", torchrun=".*AGENT SUCCEEDED.*", dtrain=".*AGENT FAILED.*"),
    Deviation("launch-advice", "dtrain launch says in one line what torch.distributed.launch says in seven",
              ("says the local rank's argument",), names="run", cases="launch launch-module", torchrun="",
              dtrain="yes"),
    Deviation("use-env", "--use-env is understood by torchrun's name too", STARTS, cases="launch-flag-elsewhere",
              torchrun="2|0", dtrain="0|1"),
    Deviation("numa-without-gpus", "dtrain run binds workers to the machine's NUMA nodes where no GPU is", STARTS,
              names="run", cases="bad-numa-binding-node", torchrun="1|0", dtrain="0|1"),
    Deviation("fractions-of-seconds", "times of --rdzv-conf may be fractions of seconds", STARTS,
              cases="fraction-of-a-second", torchrun="1|0", dtrain="0|1"),
    Deviation("no-file-store", "nodes meet over TCP, not in a file", STARTS, cases="file-store", torchrun="0|1",
              dtrain="2|0"),
    Deviation("completion-built-in", "torchrun needs the shtab package for it", ("code", "stdout"), cases="completion",
              versions="2.15", torchrun="1|", dtrain="0|.*complete -F .*"),
    Deviation("no-orphans", "a signal that nothing handles ends torchrun, not its workers; dtrain hands it to them",
              ("left behind",), cases="unhandled-usr1", torchrun="2", dtrain="0"),
    Deviation("no-orphans", "so they end, and dtrain reports it", ("code", "first failure", "report"),
              cases="unhandled-usr1", torchrun="138|"),
    Deviation("null-log-dir", "dtrain run --log-dir /dev/null drops what is redirected; torchrun then shows it",
              ("stdout", "stderr"), names="run", cases="log-dir-null-redirects", dtrain=""),
    Deviation("where-nodes-meet", "the port that a job of several nodes took is told", ("says where the nodes meet",),
              cases="c10d-elastic", torchrun="", dtrain="yes"),
    Deviation("failure-is-everybodys", "a failure on one node ends the workers of all at once; torchrun's static nodes "
              "hear nothing of each other", ("first failure", "report"), cases="agents-fail"),
]
