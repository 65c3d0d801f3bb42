#compdef dtrain torchrun
# Completions of dtrain and torchrun for zsh, made by `dtrain completion zsh`.

_dtrain_program() {
  _alternative 'files:program:_files' 'commands:program:_command_names -e'
}

_dtrain_signals() {
  _values -s , signal TERM INT HUP QUIT USR1 USR2 ALRM WINCH
}

# Flags up to the program; its arguments are completed as files. Arguments are a command's own flags.
_dtrain_run() {
  local i
  for ((i = 2; i < CURRENT; i++)); do
    [[ $words[i] == --*_* && $words[i] != *=* ]] && words[i]=${words[i]//_/-}
  done
  _arguments -S -s -A '-*' \
    '(--nproc --nproc-per-node)--nproc=[workers on this node: a number, auto, cpu or gpu]:N:(auto cpu gpu)' \
    '(--nproc --nproc-per-node)--nproc-per-node=[workers on this node: a number, auto, cpu or gpu]:N:(auto cpu gpu)' \
    '(--num-proc)--num-proc=[workers of the whole job, or auto; also -np]:N:(auto)' \
    '(--max-restarts)--max-restarts=[restart all workers up to N times after a failure]:N: ' \
    '(--survivors)--survivors=[a failure ends nothing while N workers are left here]:N: ' \
    '(--replica-groups)--replica-groups=[divide the workers into N equal groups, each its own job]:N: ' \
    '(--role)--role=[name of the workers'\'' role (ROLE_NAME)]:NAME: ' \
    '(--rdzv-id --run-id)--rdzv-id=[name of the job (TORCHELASTIC_RUN_ID)]:NAME: ' \
    '(--rdzv-id --run-id)--run-id=[name of the job (TORCHELASTIC_RUN_ID)]:NAME: ' \
    '(--standalone)--standalone[one node, nothing shared with other jobs]' \
    '(--use-gpu)--use-gpu=[whether each worker needs a GPU: auto, yes or no]:WHEN:(auto yes no)' \
    '(--virtual-local-rank)--virtual-local-rank[LOCAL_RANK=0 and one GPU of its own for every worker]' \
    '(--numa-binding)--numa-binding=[bind workers to CPUs: node, socket, exclusive, core-complex]:MODE:(node socket exclusive core-complex)' \
    '(--strategy)--strategy=[how workers share a model: a word, JSON or a file]:NAME:(ddp zero1 zero2 fsdp)' \
    '(--loader)--loader=[how the data loader reads: Ludwig'\''s backend.loader]:JSON: ' \
    '(--keep-state)--keep-state[keep each worker'\''s training state in memory over restarts]' \
    '(--copy-state)--copy-state[keep the state, and a copy of each on another node]' \
    '(--state-dir)--state-dir=[keep the state in files there for the job'\''s next run]:DIR:_files -/' \
    '(--engine)--engine=[what starts the agents: slurm, ray, spark, mpi or ssh]:NAME:(auto local slurm ray spark mpi ssh)' \
    '(--backend)--backend=[the same as --engine NAME or --config FILE, as in Ludwig]:NAME|FILE: ' \
    '(--hosts -H)--hosts=[start an agent on each of these hosts by ssh]:HOST[\:SLOTS],...: ' \
    '(--hosts -H)-H+[start an agent on each of these hosts by ssh]:HOST[\:SLOTS],...: ' \
    '(--hostfile)--hostfile=[the same, from a file: a line HOST, HOST slots=N or HOST:N]:FILE:_files' \
    '(--include)--include=[only these hosts, or these slots of theirs]:HOST[\:SLOT,...]@...: ' \
    '(--exclude)--exclude=[all hosts or slots but these]:HOST[\:SLOT,...]@...: ' \
    '(--ssh)--ssh=[what runs a command on a host, e.g. '\''ssh -p 2222'\'']:COMMAND: ' \
    '(--ssh-fanout)--ssh-fanout=[how many hosts one host starts by ssh; 0: all]:N: ' \
    '(--srun)--srun=[options of srun for --engine slurm, e.g. '\''-p gpu -t 60'\'']:OPTIONS: ' \
    '(--spark)--spark=[options of spark-submit for --engine spark]:OPTIONS: ' \
    '(--resources-per-worker)--resources-per-worker=[what each worker takes, e.g. CPU=2,GPU=1]:NAME=N,...: ' \
    '(--ship)--ship[take the program to nodes that lack it]' \
    '(--ship-files)--ship-files=[take these files and folders along too; implies --ship]:PATH,...: ' \
    '(--ship-limit)--ship-limit=[the most that --ship may take along]:MIB: ' \
    '(--nnodes)--nnodes=[how many nodes (agents) form the job: N or MIN:MAX]:MIN\:MAX: ' \
    '(--node-rank)--node-rank=[number of this node in a static job, from 0]:N: ' \
    '(--topology)--topology=[where this node is, e.g. its rack: orders the ranks]:NAME: ' \
    '(--rdzv-backend)--rdzv-backend=[how the nodes find each other: static, c10d or etcd]:NAME:(static c10d etcd etcd-v2)' \
    '(--rdzv-endpoint)--rdzv-endpoint=[where the nodes meet]:HOST\:PORT: ' \
    '(--rdzv-conf)--rdzv-conf=[seconds: join_timeout, last_call_timeout, timeout]:K=V,...: ' \
    '(--master-addr)--master-addr=[address of node 0 of a static job (MASTER_ADDR)]:HOST: ' \
    '(--master-port)--master-port=[port of node 0 of a static job (MASTER_PORT)]:PORT: ' \
    '(--local-addr)--local-addr=[address of this host, if it is the only node]:HOST: ' \
    '(--token-file)--token-file=[file with the token that all nodes of a job share]:FILE:_files' \
    '(--tls-ca)--tls-ca=[use certificates, not a token: the site'\''s authority]:FILE:_files' \
    '(--tls-cert)--tls-cert=[this node'\''s certificate, with --tls-ca]:FILE:_files' \
    '(--tls-key)--tls-key=[the private key of --tls-cert]:FILE:_files' \
    '(--insecure)--insecure[join hosts without a token; anybody can read and join]' \
    '(--ha)--ha[start an etcd for the job: any host may be lost]' \
    '(--module -m)--module[PROGRAM is a Python module: python -u -m PROGRAM]' \
    '(--module -m)-m[PROGRAM is a Python module: python -u -m PROGRAM]' \
    '(--no-python)--no-python[execute PROGRAM itself, never through Python]' \
    '(--run-path)--run-path[PROGRAM is a Python script, run by runpy.run_path]' \
    '(--stdin)--stdin=[which workers read dtrain'\''s standard input]:all|none|RANK:(all none)' \
    '(--attach)--attach=[give the terminal to the worker of this local rank]:RANK: ' \
    '(--shutdown-timeout)--shutdown-timeout=[time from a request to stop to SIGKILL]:SECONDS: ' \
    '(--failure-grace)--failure-grace=[time from a worker'\''s failure to SIGKILL of others]:SECONDS: ' \
    '(--signals-to-handle)--signals-to-handle=[signals that stop the job]:SIGNALS:_dtrain_signals' \
    '(--pass-signals)--pass-signals=[signals passed to the workers; the job goes on]:SIGNALS:_dtrain_signals' \
    '(--contain)--contain=[how dtrain holds workers: auto, cgroup, subreaper or pidns]:LEVEL:(auto cgroup subreaper pidns)' \
    '(--requeue)--requeue=[SLURM: save this long before the time limit, and requeue]:SECONDS: ' \
    '(--log-dir)--log-dir=[base folder of the workers'\'' log files]:DIR:_files -/' \
    '(--tee -t)--tee=[write streams to files as well as to the console]:STREAMS: ' \
    '(--tee -t)-t+[write streams to files as well as to the console]:STREAMS: ' \
    '(--redirects -r)--redirects=[write streams to files instead of to the console]:STREAMS: ' \
    '(--redirects -r)-r+[write streams to files instead of to the console]:STREAMS: ' \
    '(--log-line-prefix-template)--log-line-prefix-template=[text before each line on the console]:TEXT: ' \
    '(--ranks)--ranks=[show only these ranks on the console, e.g. 0,5-7]:RANKS: ' \
    '(--local-ranks-filter)--local-ranks-filter=[show only these local ranks on the console]:RANKS: ' \
    '(--duplicate-stdout-filters)--duplicate-stdout-filters=[copy tee'\''d lines of stdout with one of TEXTS to a file]:TEXTS: ' \
    '(--duplicate-stderr-filters)--duplicate-stderr-filters=[copy tee'\''d lines of stderr with one of TEXTS to a file]:TEXTS: ' \
    '(--timestamps)--timestamps[show the time before each line on the console]' \
    '(--fold)--fold[show identical lines of several ranks once]' \
    '(--report)--report=[write the failure report as JSON to FILE]:FILE:_files' \
    '(--event-log-handler)--event-log-handler=[`console` prints the job'\''s events on stderr, as JSON]:NAME:(null console)' \
    '(--color)--color=[when to use colours: auto, always or never]:WHEN:(auto always never)' \
    '(--quiet)--quiet[print only dtrain'\''s errors and reports]' \
    '(--verbose -v)--verbose[print more at start: containment, threads]' \
    '(--verbose -v)-v[print more at start: containment, threads]' \
    '(--config)--config=[a YAML or JSON file with values of flags, or `backend:`]:FILE:_files' \
    '(--dry-run)--dry-run[show what would run, with each setting'\''s origin]' \
    '(--print-config)--print-config[show the chosen settings, with origins]' \
    '(--print-completion)--print-completion=[print completions for a shell]:SHELL:(bash zsh fish)' \
    '(--help -h)--help[show the most common flags, or all]' \
    '(--help -h)-h[show the most common flags, or all]' \
    '(--version)--version[show the version]' \
    '(--monitor-interval)--monitor-interval=[no effect: workers are watched, not polled]:SECONDS: ' \
    '(--start-method)--start-method=[no effect: workers are always executed afresh]:NAME:(spawn fork forkserver)' \
    '(--logs-specs)--logs-specs=[only `default`: other names are plugins in Python]:NAME: ' \
    '(--use-env)--use-env[only for `dtrain launch`: do not pass --local-rank]' \
    "$@" '1:program:_dtrain_program' '*:argument:_default'
}

_dtrain() {
  if [[ $service == torchrun ]]; then
    _dtrain_run
    return
  fi
  local -a commands=(
    'run:start PROGRAM as several workers and watch them to their end'
    'plan:show where the workers of such a run would be'
    'predict:apply a function to a data set, each part once'
    'launch:do what torch.distributed.launch does\: add --local-rank=N'
    'shim:run COMMAND so that torchrun is dtrain in all that it starts'
    'agent:be the agent of one node\: for engines, which start it'
    'logs:print what workers have written to files'
    'status:show what your jobs on this host are doing, and why'
    'flight:say which rank is missing in which collective'
    'ckpt:show what is in a checkpoint, check it, or write its model anew'
    'estimate:estimate the memory of a rank under each strategy'
    'preprocess:build a job'\''s data set in the cache, or find it there'
    'cache:list the data sets of a cache, check and remove them'
    'rendezvous:serve the rendezvous of many jobs at one port'
    'doctor:check what this machine can do, and say how to fix it'
    'env:describe this machine for a bug report, without secrets'
    'token:make the token that a job'\''s nodes share, or say where it is'
    'completion:print completions for a shell'
    'install-torchrun:make a link named torchrun to this dtrain'
    'version:show version, compiler and build'
    'help:show this help, or help on a flag, command or topic'
  )
  if ((CURRENT == 2)); then
    _describe -t commands command commands
    return
  fi
  shift words
  ((CURRENT--))
  case $words[1] in
    run) _dtrain_run ;;
    plan) _dtrain_run '--json[print it as JSON]' ;;
    predict) _dtrain_run '--recipe=[INPUT is raw: apply this recipe.json, or `config`'\''s]:FILE: ' '--filter[--recipe: its filters leave rows out, too]' '--without=[--recipe: leave out these columns, such as the label]:COLUMNS: ' '--keep=[--recipe: SCRIPT gets these of INPUT too, such as an id]:COLUMNS: ' ;;
    launch) _dtrain_run ;;
    shim) _arguments --help'[tell about this command]' ;;
    agent) _arguments --help'[tell about this command]' '--relay[dial back to the submitter that standard input names]' '--look=[say whether this node sees a folder of the cache, and end]:FOLDER: ' ;;
    logs) _arguments --help'[tell about this command]' '--ranks=[only these local ranks, e.g. 0,5-7]:RANKS: ' '--rank=[the same as --ranks]:RANK: ' '-r[the same as --ranks]:RANK: ' '--grep=[only lines that contain TEXT]:TEXT: ' '-g[only lines that contain TEXT]:TEXT: ' '--since=[only what was written since TIME: 10m, 13:00, 2026-11-21T13:00]:TIME: ' '--attempt=[the rounds after N restarts; without it, the last round]:N: ' '--stdout[only stdout]' '--stderr[only stderr]' '--follow[keep printing what is written, in new rounds too]' '-f[keep printing what is written, in new rounds too]' '1:folder:_files -/' ;;
    status) _arguments --help'[tell about this command]' '--job=[only this job, by its --rdzv-id]:ID: ' '--json[print it as JSON]' ;;
    flight) _arguments --help'[tell about this command]' '--json[print it as JSON]' '1:folder:_files -/' ;;
    ckpt) _arguments --help'[tell about this command]' '--json[inspect: print it as JSON]' '--max-size=[consolidate, convert: most bytes of a file, such as 5GB; default one file]:SIZE: ' '--dtype=[convert: floating tensors become float32, bfloat16 or float16]:TYPE: ' '--rename=[convert: names that begin with FROM begin with TO; repeatable]:FROM=TO: ' '1:argument:(inspect verify consolidate convert)' ;;
    estimate) _arguments --help'[tell about this command]' '--parameters=[so many parameters, in place of PATH: 350M, 7B, 7e9]:COUNT: ' '--nproc=[ranks on each node]:N: ' '--nnodes=[nodes; default 1]:N: ' '--ranks=[ranks in all, in place of --nproc and --nnodes]:N: ' '--strategy=[this strategy alone: a word, JSON or a file, as for run]:NAME: ' '--micro-batches=[backwards of a rank in a step, if the strategy is deterministic]:N: ' '--optimizer=[adamw (default), adam, lamb, adagrad, muon, sgd, sgd-momentum]:NAME: ' '--state=[type of the optimizer'\''s state: float32 (default), bfloat16]:TYPE: ' '--state-on-disk[the state lies in a state_folder]' '--units=[units of fsdp: names such as model.layers.N, or a number]:UNITS: ' '--memory=[memory of a rank, as 80GB: marks what fits]:SIZE: ' '--json[print it as JSON]' ;;
    preprocess) _arguments --help'[tell about this command]' '--config=[the job'\''s file, with a section `dataset`]:FILE: ' '--cache-dir=[use this cache instead of the file'\''s backend.cache_dir]:DIR: ' '--threads=[threads of the work; default all cores]:N: ' '--wait=[wait so long for another job that builds it; default 3600]:SECONDS: ' '--json[print the result as JSON]' ;;
    cache) _arguments --help'[tell about this command]' '--config=[the cache of this job'\''s file]:FILE: ' '--cache-dir=[this cache]:DIR: ' '--json[ls: print it as JSON]' '--ttl=[gc: remove what no job took for AGE: 30d, 12h]:AGE: ' '--max-size=[gc: remove the longest unused above SIZE: 100GB]:SIZE: ' '1:argument:(ls verify gc rm)' ;;
    rendezvous) _arguments --help'[tell about this command]' '--port=[port to listen at, 0 for any free port; default 29400]:N: ' '--bind=[listen only at this address of this host; default all]:ADDR: ' '--token-file=[the token that jobs need, as for run]:FILE: ' '--tls-ca=[use certificates, not a token, as for run]:FILE: ' '--tls-cert=[the server'\''s certificate]:FILE: ' '--tls-key=[the server'\''s private key]:FILE: ' '--max-jobs=[most jobs at a time; default 256]:N: ' '--max-nodes=[most nodes of all jobs together; default 16384]:N: ' '--max-store-mib=[most memory of one job'\''s store; default 1024]:N: ' '--max-store-keys=[most keys of one job'\''s store; default 1000000]:N: ' '--open-store=[open a store for torchrun agents too; NO AUTHENTICATION]:ADDR\:PORT: ' '1:argument:(serve)' ;;
    doctor) _arguments --help'[tell about this command]' '--preflight[exit with 0, 10 (warning), 20 (try again) or 30 (never)]' ;;
    env) _arguments --help'[tell about this command]' '--json[print it as JSON]' ;;
    token) _arguments --help'[tell about this command]' '--new[make a new token; never overwrites a file]' '--code[make a token that can be typed: shows its code on the terminal]' '--join[make the token of a code: asks for the code, or reads it from stdin]' '--file=[use this file instead of ~/.config/dtrain/token]:FILE: ' ;;
    completion) _arguments --help'[tell about this command]' '1:argument:(bash zsh fish)' ;;
    install-torchrun) _arguments --help'[tell about this command]' ;;
    version) _arguments --help'[tell about this command]' ;;
    help) _arguments --help'[tell about this command]' '1:argument:(run plan predict launch shim agent logs status flight ckpt estimate preprocess cache rendezvous doctor env token completion install-torchrun version help exit-codes environment workers nproc nproc-per-node num-proc max-restarts survivors replica-groups role rdzv-id run-id standalone use-gpu virtual-local-rank numa-binding strategy loader keep-state copy-state state-dir engine backend hosts hostfile include exclude ssh ssh-fanout srun spark resources-per-worker ship ship-files ship-limit nnodes node-rank topology rdzv-backend rdzv-endpoint rdzv-conf master-addr master-port local-addr token-file tls-ca tls-cert tls-key insecure ha module no-python run-path stdin attach shutdown-timeout failure-grace signals-to-handle pass-signals contain requeue log-dir tee redirects log-line-prefix-template ranks local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters timestamps fold report event-log-handler color quiet verbose config dry-run print-config print-completion help version monitor-interval start-method logs-specs use-env)' ;;
  esac
}

if [[ $funcstack[1] == _dtrain ]]; then
  _dtrain "$@"
else
  compdef _dtrain dtrain torchrun
fi
