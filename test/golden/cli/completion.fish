# Completions of dtrain and torchrun for fish, made by `dtrain completion fish`.

set -g __dtrain_with_value --nproc --nproc-per-node --num-proc --max-restarts --survivors --replica-groups --role --rdzv-id --run-id --use-gpu --numa-binding --strategy --loader --state-dir --engine --backend --hosts -H --hostfile --include --exclude --ssh --ssh-fanout --srun --spark --resources-per-worker --ship-files --ship-limit --nnodes --node-rank --topology --rdzv-backend --rdzv-endpoint --rdzv-conf --master-addr --master-port --local-addr --token-file --tls-ca --tls-cert --tls-key --stdin --attach --shutdown-timeout --failure-grace --signals-to-handle --pass-signals --contain --requeue --log-dir --tee -t --redirects -r --log-line-prefix-template --ranks --local-ranks-filter --duplicate-stdout-filters --duplicate-stderr-filters --report --event-log-handler --color --config --print-completion --monitor-interval --start-method --logs-specs

function __dtrain_signals
    string split ' ' 'TERM INT HUP QUIT USR1 USR2 ALRM WINCH'
end

# Where the cursor is: before the command, in a command (its name), or past the program of run (program).
function __dtrain_place
    set -l words (commandline -opc)
    set -l called (string replace -r '.*/' '' -- $words[1])
    set -e words[1]
    if test "$called" != torchrun
        if not set -q words[1]
            echo command
            return
        end
        if not contains -- $words[1] run plan predict launch
            echo $words[1]
            return
        end
        set -e words[1]
    end
    set -l value no
    for word in $words
        if test $value = yes
            set value no
        else if test "$word" = --
            echo program
            return
        else if contains -- (string replace -a _ - -- $word) $__dtrain_with_value
            set value yes
        else if not string match -q -- '-*' $word
            echo program
            return
        end
    end
    echo run
end

complete -c dtrain -f
complete -c torchrun -f

complete -c dtrain -n 'test (__dtrain_place) = command' -a run -d 'start PROGRAM as several workers and watch them to their end'
complete -c dtrain -n 'test (__dtrain_place) = command' -a plan -d 'show where the workers of such a run would be'
complete -c dtrain -n 'test (__dtrain_place) = run; and contains -- plan (commandline -opc)[2]' -l json -d 'print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = command' -a predict -d 'apply a function to a data set, each part once'
complete -c dtrain -n 'test (__dtrain_place) = run; and contains -- predict (commandline -opc)[2]' -l recipe -x -d 'INPUT is raw: apply this recipe.json, or `config`\'s'
complete -c dtrain -n 'test (__dtrain_place) = run; and contains -- predict (commandline -opc)[2]' -l filter -d '--recipe: its filters leave rows out, too'
complete -c dtrain -n 'test (__dtrain_place) = run; and contains -- predict (commandline -opc)[2]' -l without -x -d '--recipe: leave out these columns, such as the label'
complete -c dtrain -n 'test (__dtrain_place) = run; and contains -- predict (commandline -opc)[2]' -l keep -x -d '--recipe: SCRIPT gets these of INPUT too, such as an id'
complete -c dtrain -n 'test (__dtrain_place) = command' -a launch -d 'do what torch.distributed.launch does: add --local-rank=N'
complete -c dtrain -n 'test (__dtrain_place) = command' -a shim -d 'run COMMAND so that torchrun is dtrain in all that it starts'
complete -c dtrain -n 'test (__dtrain_place) = command' -a agent -d 'be the agent of one node: for engines, which start it'
complete -c dtrain -n 'test (__dtrain_place) = agent' -l relay -d 'dial back to the submitter that standard input names'
complete -c dtrain -n 'test (__dtrain_place) = agent' -l look -x -d 'say whether this node sees a folder of the cache, and end'
complete -c dtrain -n 'test (__dtrain_place) = command' -a logs -d 'print what workers have written to files'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l ranks -x -d 'only these local ranks, e.g. 0,5-7'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l rank -s r -x -d 'the same as --ranks'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l grep -s g -x -d 'only lines that contain TEXT'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l since -x -d 'only what was written since TIME: 10m, 13:00, 2026-11-21T13:00'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l attempt -x -d 'the rounds after N restarts; without it, the last round'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l stdout -d 'only stdout'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l stderr -d 'only stderr'
complete -c dtrain -n 'test (__dtrain_place) = logs' -l follow -s f -d 'keep printing what is written, in new rounds too'
complete -c dtrain -n 'test (__dtrain_place) = logs' -a '(__fish_complete_directories (commandline -ct))'
complete -c dtrain -n 'test (__dtrain_place) = command' -a status -d 'show what your jobs on this host are doing, and why'
complete -c dtrain -n 'test (__dtrain_place) = status' -l job -x -d 'only this job, by its --rdzv-id'
complete -c dtrain -n 'test (__dtrain_place) = status' -l json -d 'print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = command' -a flight -d 'say which rank is missing in which collective'
complete -c dtrain -n 'test (__dtrain_place) = flight' -l json -d 'print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = flight' -a '(__fish_complete_directories (commandline -ct))'
complete -c dtrain -n 'test (__dtrain_place) = command' -a ckpt -d 'show what is in a checkpoint, check it, or write its model anew'
complete -c dtrain -n 'test (__dtrain_place) = ckpt' -l json -d 'inspect: print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = ckpt' -l max-size -x -d 'consolidate, convert: most bytes of a file, such as 5GB; default one file'
complete -c dtrain -n 'test (__dtrain_place) = ckpt' -l dtype -x -d 'convert: floating tensors become float32, bfloat16 or float16'
complete -c dtrain -n 'test (__dtrain_place) = ckpt' -l rename -x -d 'convert: names that begin with FROM begin with TO; repeatable'
complete -c dtrain -n 'test (__dtrain_place) = ckpt' -a 'inspect verify consolidate convert'
complete -c dtrain -n 'test (__dtrain_place) = command' -a estimate -d 'estimate the memory of a rank under each strategy'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l parameters -x -d 'so many parameters, in place of PATH: 350M, 7B, 7e9'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l nproc -x -d 'ranks on each node'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l nnodes -x -d 'nodes; default 1'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l ranks -x -d 'ranks in all, in place of --nproc and --nnodes'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l strategy -x -d 'this strategy alone: a word, JSON or a file, as for run'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l micro-batches -x -d 'backwards of a rank in a step, if the strategy is deterministic'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l optimizer -x -d 'adamw (default), adam, lamb, adagrad, muon, sgd, sgd-momentum'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l state -x -d 'type of the optimizer\'s state: float32 (default), bfloat16'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l state-on-disk -d 'the state lies in a state_folder'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l units -x -d 'units of fsdp: names such as model.layers.N, or a number'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l memory -x -d 'memory of a rank, as 80GB: marks what fits'
complete -c dtrain -n 'test (__dtrain_place) = estimate' -l json -d 'print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = command' -a preprocess -d 'build a job\'s data set in the cache, or find it there'
complete -c dtrain -n 'test (__dtrain_place) = preprocess' -l config -x -d 'the job\'s file, with a section `dataset`'
complete -c dtrain -n 'test (__dtrain_place) = preprocess' -l cache-dir -x -d 'use this cache instead of the file\'s backend.cache_dir'
complete -c dtrain -n 'test (__dtrain_place) = preprocess' -l threads -x -d 'threads of the work; default all cores'
complete -c dtrain -n 'test (__dtrain_place) = preprocess' -l wait -x -d 'wait so long for another job that builds it; default 3600'
complete -c dtrain -n 'test (__dtrain_place) = preprocess' -l json -d 'print the result as JSON'
complete -c dtrain -n 'test (__dtrain_place) = command' -a cache -d 'list the data sets of a cache, check and remove them'
complete -c dtrain -n 'test (__dtrain_place) = cache' -l config -x -d 'the cache of this job\'s file'
complete -c dtrain -n 'test (__dtrain_place) = cache' -l cache-dir -x -d 'this cache'
complete -c dtrain -n 'test (__dtrain_place) = cache' -l json -d 'ls: print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = cache' -l ttl -x -d 'gc: remove what no job took for AGE: 30d, 12h'
complete -c dtrain -n 'test (__dtrain_place) = cache' -l max-size -x -d 'gc: remove the longest unused above SIZE: 100GB'
complete -c dtrain -n 'test (__dtrain_place) = cache' -a 'ls verify gc rm'
complete -c dtrain -n 'test (__dtrain_place) = command' -a rendezvous -d 'serve the rendezvous of many jobs at one port'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l port -x -d 'port to listen at, 0 for any free port; default 29400'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l bind -x -d 'listen only at this address of this host; default all'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l token-file -x -d 'the token that jobs need, as for run'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l tls-ca -x -d 'use certificates, not a token, as for run'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l tls-cert -x -d 'the server\'s certificate'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l tls-key -x -d 'the server\'s private key'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l max-jobs -x -d 'most jobs at a time; default 256'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l max-nodes -x -d 'most nodes of all jobs together; default 16384'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l max-store-mib -x -d 'most memory of one job\'s store; default 1024'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l max-store-keys -x -d 'most keys of one job\'s store; default 1000000'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -l open-store -x -d 'open a store for torchrun agents too; NO AUTHENTICATION'
complete -c dtrain -n 'test (__dtrain_place) = rendezvous' -a 'serve'
complete -c dtrain -n 'test (__dtrain_place) = command' -a doctor -d 'check what this machine can do, and say how to fix it'
complete -c dtrain -n 'test (__dtrain_place) = doctor' -l preflight -d 'exit with 0, 10 (warning), 20 (try again) or 30 (never)'
complete -c dtrain -n 'test (__dtrain_place) = command' -a env -d 'describe this machine for a bug report, without secrets'
complete -c dtrain -n 'test (__dtrain_place) = env' -l json -d 'print it as JSON'
complete -c dtrain -n 'test (__dtrain_place) = command' -a token -d 'make the token that a job\'s nodes share, or say where it is'
complete -c dtrain -n 'test (__dtrain_place) = token' -l new -d 'make a new token; never overwrites a file'
complete -c dtrain -n 'test (__dtrain_place) = token' -l code -d 'make a token that can be typed: shows its code on the terminal'
complete -c dtrain -n 'test (__dtrain_place) = token' -l join -d 'make the token of a code: asks for the code, or reads it from stdin'
complete -c dtrain -n 'test (__dtrain_place) = token' -l file -x -d 'use this file instead of ~/.config/dtrain/token'
complete -c dtrain -n 'test (__dtrain_place) = command' -a completion -d 'print completions for a shell'
complete -c dtrain -n 'test (__dtrain_place) = completion' -a 'bash zsh fish'
complete -c dtrain -n 'test (__dtrain_place) = command' -a install-torchrun -d 'make a link named torchrun to this dtrain'
complete -c dtrain -n 'test (__dtrain_place) = command' -a version -d 'show version, compiler and build'
complete -c dtrain -n 'test (__dtrain_place) = command' -a help -d 'show this help, or help on a flag, command or topic'
complete -c dtrain -n 'test (__dtrain_place) = help' -a 'run plan predict launch shim agent logs status flight ckpt estimate preprocess cache rendezvous doctor env token completion install-torchrun version help exit-codes environment workers nproc nproc-per-node num-proc max-restarts survivors replica-groups role rdzv-id run-id standalone use-gpu virtual-local-rank numa-binding strategy loader keep-state copy-state state-dir engine backend hosts hostfile include exclude ssh ssh-fanout srun spark resources-per-worker ship ship-files ship-limit nnodes node-rank topology rdzv-backend rdzv-endpoint rdzv-conf master-addr master-port local-addr token-file tls-ca tls-cert tls-key insecure ha module no-python run-path stdin attach shutdown-timeout failure-grace signals-to-handle pass-signals contain requeue log-dir tee redirects log-line-prefix-template ranks local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters timestamps fold report event-log-handler color quiet verbose config dry-run print-config print-completion help version monitor-interval start-method logs-specs use-env'

for name in dtrain torchrun
    complete -c $name -n 'test (__dtrain_place) = run' -l nproc -x -a 'auto cpu gpu' -d 'workers on this node: a number, auto, cpu or gpu'
    complete -c $name -n 'test (__dtrain_place) = run' -l nproc-per-node -x -a 'auto cpu gpu' -d 'workers on this node: a number, auto, cpu or gpu'
    complete -c $name -n 'test (__dtrain_place) = run' -l num-proc -x -a 'auto' -d 'workers of the whole job, or auto; also -np'
    complete -c $name -n 'test (__dtrain_place) = run' -l max-restarts -x -d 'restart all workers up to N times after a failure'
    complete -c $name -n 'test (__dtrain_place) = run' -l survivors -x -d 'a failure ends nothing while N workers are left here'
    complete -c $name -n 'test (__dtrain_place) = run' -l replica-groups -x -d 'divide the workers into N equal groups, each its own job'
    complete -c $name -n 'test (__dtrain_place) = run' -l role -x -d 'name of the workers\' role (ROLE_NAME)'
    complete -c $name -n 'test (__dtrain_place) = run' -l rdzv-id -x -d 'name of the job (TORCHELASTIC_RUN_ID)'
    complete -c $name -n 'test (__dtrain_place) = run' -l run-id -x -d 'name of the job (TORCHELASTIC_RUN_ID)'
    complete -c $name -n 'test (__dtrain_place) = run' -l standalone -d 'one node, nothing shared with other jobs'
    complete -c $name -n 'test (__dtrain_place) = run' -l use-gpu -x -a 'auto yes no' -d 'whether each worker needs a GPU: auto, yes or no'
    complete -c $name -n 'test (__dtrain_place) = run' -l virtual-local-rank -d 'LOCAL_RANK=0 and one GPU of its own for every worker'
    complete -c $name -n 'test (__dtrain_place) = run' -l numa-binding -x -a 'node socket exclusive core-complex' -d 'bind workers to CPUs: node, socket, exclusive, core-complex'
    complete -c $name -n 'test (__dtrain_place) = run' -l strategy -x -a 'ddp zero1 zero2 fsdp' -d 'how workers share a model: a word, JSON or a file'
    complete -c $name -n 'test (__dtrain_place) = run' -l loader -x -d 'how the data loader reads: Ludwig\'s backend.loader'
    complete -c $name -n 'test (__dtrain_place) = run' -l keep-state -d 'keep each worker\'s training state in memory over restarts'
    complete -c $name -n 'test (__dtrain_place) = run' -l copy-state -d 'keep the state, and a copy of each on another node'
    complete -c $name -n 'test (__dtrain_place) = run' -l state-dir -x -a '(__fish_complete_directories (commandline -ct))' -d 'keep the state in files there for the job\'s next run'
    complete -c $name -n 'test (__dtrain_place) = run' -l engine -x -a 'auto local slurm ray spark mpi ssh' -d 'what starts the agents: slurm, ray, spark, mpi or ssh'
    complete -c $name -n 'test (__dtrain_place) = run' -l backend -x -d 'the same as --engine NAME or --config FILE, as in Ludwig'
    complete -c $name -n 'test (__dtrain_place) = run' -l hosts -x -d 'start an agent on each of these hosts by ssh'
    complete -c $name -n 'test (__dtrain_place) = run' -s H -x -d 'start an agent on each of these hosts by ssh'
    complete -c $name -n 'test (__dtrain_place) = run' -l hostfile -r -F -d 'the same, from a file: a line HOST, HOST slots=N or HOST:N'
    complete -c $name -n 'test (__dtrain_place) = run' -l include -x -d 'only these hosts, or these slots of theirs'
    complete -c $name -n 'test (__dtrain_place) = run' -l exclude -x -d 'all hosts or slots but these'
    complete -c $name -n 'test (__dtrain_place) = run' -l ssh -x -d 'what runs a command on a host, e.g. \'ssh -p 2222\''
    complete -c $name -n 'test (__dtrain_place) = run' -l ssh-fanout -x -d 'how many hosts one host starts by ssh; 0: all'
    complete -c $name -n 'test (__dtrain_place) = run' -l srun -x -d 'options of srun for --engine slurm, e.g. \'-p gpu -t 60\''
    complete -c $name -n 'test (__dtrain_place) = run' -l spark -x -d 'options of spark-submit for --engine spark'
    complete -c $name -n 'test (__dtrain_place) = run' -l resources-per-worker -x -d 'what each worker takes, e.g. CPU=2,GPU=1'
    complete -c $name -n 'test (__dtrain_place) = run' -l ship -d 'take the program to nodes that lack it'
    complete -c $name -n 'test (__dtrain_place) = run' -l ship-files -x -d 'take these files and folders along too; implies --ship'
    complete -c $name -n 'test (__dtrain_place) = run' -l ship-limit -x -d 'the most that --ship may take along'
    complete -c $name -n 'test (__dtrain_place) = run' -l nnodes -x -d 'how many nodes (agents) form the job: N or MIN:MAX'
    complete -c $name -n 'test (__dtrain_place) = run' -l node-rank -x -d 'number of this node in a static job, from 0'
    complete -c $name -n 'test (__dtrain_place) = run' -l topology -x -d 'where this node is, e.g. its rack: orders the ranks'
    complete -c $name -n 'test (__dtrain_place) = run' -l rdzv-backend -x -a 'static c10d etcd etcd-v2' -d 'how the nodes find each other: static, c10d or etcd'
    complete -c $name -n 'test (__dtrain_place) = run' -l rdzv-endpoint -x -d 'where the nodes meet'
    complete -c $name -n 'test (__dtrain_place) = run' -l rdzv-conf -x -d 'seconds: join_timeout, last_call_timeout, timeout'
    complete -c $name -n 'test (__dtrain_place) = run' -l master-addr -x -d 'address of node 0 of a static job (MASTER_ADDR)'
    complete -c $name -n 'test (__dtrain_place) = run' -l master-port -x -d 'port of node 0 of a static job (MASTER_PORT)'
    complete -c $name -n 'test (__dtrain_place) = run' -l local-addr -x -d 'address of this host, if it is the only node'
    complete -c $name -n 'test (__dtrain_place) = run' -l token-file -r -F -d 'file with the token that all nodes of a job share'
    complete -c $name -n 'test (__dtrain_place) = run' -l tls-ca -r -F -d 'use certificates, not a token: the site\'s authority'
    complete -c $name -n 'test (__dtrain_place) = run' -l tls-cert -r -F -d 'this node\'s certificate, with --tls-ca'
    complete -c $name -n 'test (__dtrain_place) = run' -l tls-key -r -F -d 'the private key of --tls-cert'
    complete -c $name -n 'test (__dtrain_place) = run' -l insecure -d 'join hosts without a token; anybody can read and join'
    complete -c $name -n 'test (__dtrain_place) = run' -l ha -d 'start an etcd for the job: any host may be lost'
    complete -c $name -n 'test (__dtrain_place) = run' -l module -d 'PROGRAM is a Python module: python -u -m PROGRAM'
    complete -c $name -n 'test (__dtrain_place) = run' -s m -d 'PROGRAM is a Python module: python -u -m PROGRAM'
    complete -c $name -n 'test (__dtrain_place) = run' -l no-python -d 'execute PROGRAM itself, never through Python'
    complete -c $name -n 'test (__dtrain_place) = run' -l run-path -d 'PROGRAM is a Python script, run by runpy.run_path'
    complete -c $name -n 'test (__dtrain_place) = run' -l stdin -x -a 'all none' -d 'which workers read dtrain\'s standard input'
    complete -c $name -n 'test (__dtrain_place) = run' -l attach -x -d 'give the terminal to the worker of this local rank'
    complete -c $name -n 'test (__dtrain_place) = run' -l shutdown-timeout -x -d 'time from a request to stop to SIGKILL'
    complete -c $name -n 'test (__dtrain_place) = run' -l failure-grace -x -d 'time from a worker\'s failure to SIGKILL of others'
    complete -c $name -n 'test (__dtrain_place) = run' -l signals-to-handle -x -a '(__fish_complete_list , __dtrain_signals)' -d 'signals that stop the job'
    complete -c $name -n 'test (__dtrain_place) = run' -l pass-signals -x -a '(__fish_complete_list , __dtrain_signals)' -d 'signals passed to the workers; the job goes on'
    complete -c $name -n 'test (__dtrain_place) = run' -l contain -x -a 'auto cgroup subreaper pidns' -d 'how dtrain holds workers: auto, cgroup, subreaper or pidns'
    complete -c $name -n 'test (__dtrain_place) = run' -l requeue -x -d 'SLURM: save this long before the time limit, and requeue'
    complete -c $name -n 'test (__dtrain_place) = run' -l log-dir -x -a '(__fish_complete_directories (commandline -ct))' -d 'base folder of the workers\' log files'
    complete -c $name -n 'test (__dtrain_place) = run' -l tee -x -d 'write streams to files as well as to the console'
    complete -c $name -n 'test (__dtrain_place) = run' -s t -x -d 'write streams to files as well as to the console'
    complete -c $name -n 'test (__dtrain_place) = run' -l redirects -x -d 'write streams to files instead of to the console'
    complete -c $name -n 'test (__dtrain_place) = run' -s r -x -d 'write streams to files instead of to the console'
    complete -c $name -n 'test (__dtrain_place) = run' -l log-line-prefix-template -x -d 'text before each line on the console'
    complete -c $name -n 'test (__dtrain_place) = run' -l ranks -x -d 'show only these ranks on the console, e.g. 0,5-7'
    complete -c $name -n 'test (__dtrain_place) = run' -l local-ranks-filter -x -d 'show only these local ranks on the console'
    complete -c $name -n 'test (__dtrain_place) = run' -l duplicate-stdout-filters -x -d 'copy tee\'d lines of stdout with one of TEXTS to a file'
    complete -c $name -n 'test (__dtrain_place) = run' -l duplicate-stderr-filters -x -d 'copy tee\'d lines of stderr with one of TEXTS to a file'
    complete -c $name -n 'test (__dtrain_place) = run' -l timestamps -d 'show the time before each line on the console'
    complete -c $name -n 'test (__dtrain_place) = run' -l fold -d 'show identical lines of several ranks once'
    complete -c $name -n 'test (__dtrain_place) = run' -l report -r -F -d 'write the failure report as JSON to FILE'
    complete -c $name -n 'test (__dtrain_place) = run' -l event-log-handler -x -a 'null console' -d '`console` prints the job\'s events on stderr, as JSON'
    complete -c $name -n 'test (__dtrain_place) = run' -l color -x -a 'auto always never' -d 'when to use colours: auto, always or never'
    complete -c $name -n 'test (__dtrain_place) = run' -l quiet -d 'print only dtrain\'s errors and reports'
    complete -c $name -n 'test (__dtrain_place) = run' -l verbose -d 'print more at start: containment, threads'
    complete -c $name -n 'test (__dtrain_place) = run' -s v -d 'print more at start: containment, threads'
    complete -c $name -n 'test (__dtrain_place) = run' -l config -r -F -d 'a YAML or JSON file with values of flags, or `backend:`'
    complete -c $name -n 'test (__dtrain_place) = run' -l dry-run -d 'show what would run, with each setting\'s origin'
    complete -c $name -n 'test (__dtrain_place) = run' -l print-config -d 'show the chosen settings, with origins'
    complete -c $name -n 'test (__dtrain_place) = run' -l print-completion -x -a 'bash zsh fish' -d 'print completions for a shell'
    complete -c $name -n 'test (__dtrain_place) = run' -l help -d 'show the most common flags, or all'
    complete -c $name -n 'test (__dtrain_place) = run' -s h -d 'show the most common flags, or all'
    complete -c $name -n 'test (__dtrain_place) = run' -l version -d 'show the version'
    complete -c $name -n 'test (__dtrain_place) = run' -l monitor-interval -x -d 'no effect: workers are watched, not polled'
    complete -c $name -n 'test (__dtrain_place) = run' -l start-method -x -a 'spawn fork forkserver' -d 'no effect: workers are always executed afresh'
    complete -c $name -n 'test (__dtrain_place) = run' -l logs-specs -x -d 'only `default`: other names are plugins in Python'
    complete -c $name -n 'test (__dtrain_place) = run' -l use-env -d 'only for `dtrain launch`: do not pass --local-rank'
    complete -c $name -n 'contains (__dtrain_place) run program' -F
end
