# Completions of dtrain and torchrun for bash, made by `dtrain completion bash`.

# Offer those of the words in $1 that begin with what was typed.
_dtrain_offer() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$_dtrain_typed")
}

# The last of several words separated by commas.
_dtrain_offer_list() {
  local before=
  [[ $_dtrain_typed == *,* ]] && before=${_dtrain_typed%,*},
  mapfile -t COMPREPLY < <(compgen -P "$before" -W "$1" -- "${_dtrain_typed##*,}")
  compopt -o nospace
}

_dtrain_flags='--nproc --nproc-per-node --num-proc --max-restarts --survivors --replica-groups --role --rdzv-id --run-id --standalone --use-gpu --virtual-local-rank --numa-binding --strategy --loader --keep-state --copy-state --state-dir --engine --backend --hosts -H --hostfile --include --exclude --ssh --ssh-fanout --srun --spark --resources-per-worker --ship --ship-files --ship-limit --nnodes --node-rank --topology --rdzv-backend --rdzv-endpoint --rdzv-conf --master-addr --master-port --local-addr --token-file --tls-ca --tls-cert --tls-key --insecure --ha --module -m --no-python --run-path --stdin --attach --shutdown-timeout --failure-grace --signals-to-handle --pass-signals --contain --requeue --log-dir --tee -t --redirects -r --log-line-prefix-template --ranks --local-ranks-filter --duplicate-stdout-filters --duplicate-stderr-filters --timestamps --fold --report --event-log-handler --color --quiet --verbose -v --config --dry-run --print-config --print-completion --help -h --version --monitor-interval --start-method --logs-specs --use-env'
_dtrain_with_value=' --nproc --nproc-per-node --num-proc --max-restarts --survivors --replica-groups --role --rdzv-id --run-id --use-gpu --numa-binding --strategy --loader --state-dir --engine --backend --hosts -H --hostfile --include --exclude --ssh --ssh-fanout --srun --spark --resources-per-worker --ship-files --ship-limit --nnodes --node-rank --topology --rdzv-backend --rdzv-endpoint --rdzv-conf --master-addr --master-port --local-addr --token-file --tls-ca --tls-cert --tls-key --stdin --attach --shutdown-timeout --failure-grace --signals-to-handle --pass-signals --contain --requeue --log-dir --tee -t --redirects -r --log-line-prefix-template --ranks --local-ranks-filter --duplicate-stdout-filters --duplicate-stderr-filters --report --event-log-handler --color --config --print-completion --monitor-interval --start-method --logs-specs '
_dtrain_commands='run plan predict launch shim agent logs status flight ckpt estimate preprocess cache rendezvous doctor env token completion install-torchrun version help --help --version'

# Offer values of the flag $1.
_dtrain_value() {
  case $1 in
    --nproc | --nproc-per-node) _dtrain_offer 'auto cpu gpu' ;;
    --num-proc) _dtrain_offer 'auto' ;;
    --use-gpu) _dtrain_offer 'auto yes no' ;;
    --numa-binding) _dtrain_offer 'node socket exclusive core-complex' ;;
    --strategy) _dtrain_offer 'ddp zero1 zero2 fsdp' ;;
    --state-dir) compopt -o dirnames ;;
    --engine) _dtrain_offer 'auto local slurm ray spark mpi ssh' ;;
    --hostfile) compopt -o default ;;
    --rdzv-backend) _dtrain_offer 'static c10d etcd etcd-v2' ;;
    --token-file) compopt -o default ;;
    --tls-ca) compopt -o default ;;
    --tls-cert) compopt -o default ;;
    --tls-key) compopt -o default ;;
    --stdin) _dtrain_offer 'all none' ;;
    --signals-to-handle) _dtrain_offer_list 'TERM INT HUP QUIT USR1 USR2 ALRM WINCH' ;;
    --pass-signals) _dtrain_offer_list 'TERM INT HUP QUIT USR1 USR2 ALRM WINCH' ;;
    --contain) _dtrain_offer 'auto cgroup subreaper pidns' ;;
    --log-dir) compopt -o dirnames ;;
    --report) compopt -o default ;;
    --event-log-handler) _dtrain_offer 'null console' ;;
    --color) _dtrain_offer 'auto always never' ;;
    --config) compopt -o default ;;
    --print-completion) _dtrain_offer 'bash zsh fish' ;;
    --start-method) _dtrain_offer 'spawn fork forkserver' ;;
  esac
}

# The line's words as the shell will see them: bash also splits COMP_WORDS at ':' and '=', as in host:29400.
_dtrain_split() {
  local line=$COMP_LINE blanks word i
  _dtrain_words=()
  for ((i = 0; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    blanks=${line%%[![:blank:]]*}
    line=${line#"$blanks"}
    line=${line#"$word"}
    if ((i > 0)) && [[ -z $blanks ]]; then
      _dtrain_words[-1]+=$word
    else
      _dtrain_words+=("$word")
    fi
  done
  _dtrain_last=$((${#_dtrain_words[@]} - 1))
}

# Flags from word $1 on, then the program, whose arguments are completed as files.
_dtrain_run() {
  local i=$1 name
  while ((i < _dtrain_last)); do
    name=${_dtrain_words[i]//_/-}
    case $name in
      --) break ;;
      -*=*) ((i += 1)) ;;
      -*)
        if [[ $_dtrain_with_value != *" $name "* ]]; then
          ((i += 1))
        elif ((i + 1 == _dtrain_last)); then
          _dtrain_value "$name"
          return
        else
          ((i += 2))
        fi
        ;;
      *) break ;;
    esac
  done
  if ((i >= _dtrain_last)) && [[ ${_dtrain_words[_dtrain_last]} == -*=* ]]; then
    name=${_dtrain_words[_dtrain_last]%%=*}
    _dtrain_value "${name//_/-}"
    return
  fi
  if ((i >= _dtrain_last)) && [[ $_dtrain_typed == -* ]]; then
    if [[ $_dtrain_typed == *_* ]]; then
      local dashed=${_dtrain_flags//--/ @}
      dashed=${dashed//-/_}
      _dtrain_offer "${dashed//@/--}"
    else
      _dtrain_offer "$_dtrain_flags"
    fi
  elif ((i >= _dtrain_last)) && [[ -n $_dtrain_typed && $_dtrain_typed != */* ]]; then
    mapfile -t COMPREPLY < <(compgen -A command -A file -- "$_dtrain_typed" | sort -u)
    compopt -o filenames
  else
    compopt -o default
  fi
}

_dtrain() {
  local _dtrain_typed=${COMP_WORDS[COMP_CWORD]} _dtrain_words _dtrain_last
  [[ $_dtrain_typed == [=:]* ]] && _dtrain_typed=
  COMPREPLY=()
  _dtrain_split
  if [[ ${1##*/} == torchrun ]]; then
    _dtrain_run 1
    return
  fi
  if ((_dtrain_last == 1)); then
    _dtrain_offer "$_dtrain_commands"
    return
  fi
  case ${_dtrain_words[1]} in
    run) _dtrain_run 2 ;;
    plan) local _dtrain_flags="$_dtrain_flags --json"; _dtrain_run 2 ;;
    predict) local _dtrain_flags="$_dtrain_flags --recipe --filter --without --keep"; _dtrain_run 2 ;;
    launch) _dtrain_run 2 ;;
    shim) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--help'; else :; fi ;;
    agent) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--relay --look --help'; else :; fi ;;
    logs) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--ranks --rank -r --grep -g --since --attempt --stdout --stderr --follow -f --help'; else compopt -o dirnames; fi ;;
    status) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--job --json --help'; else :; fi ;;
    flight) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--json --help'; else compopt -o dirnames; fi ;;
    ckpt) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--json --max-size --dtype --rename --help'; else ((_dtrain_last == 2)) && _dtrain_offer 'inspect verify consolidate convert'; fi ;;
    estimate) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--parameters --nproc --nnodes --ranks --strategy --micro-batches --optimizer --state --state-on-disk --units --memory --json --help'; else :; fi ;;
    preprocess) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--config --cache-dir --threads --wait --json --help'; else :; fi ;;
    cache) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--config --cache-dir --json --ttl --max-size --help'; else ((_dtrain_last == 2)) && _dtrain_offer 'ls verify gc rm'; fi ;;
    rendezvous) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--port --bind --token-file --tls-ca --tls-cert --tls-key --max-jobs --max-nodes --max-store-mib --max-store-keys --open-store --help'; else ((_dtrain_last == 2)) && _dtrain_offer 'serve'; fi ;;
    doctor) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--preflight --help'; else :; fi ;;
    env) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--json --help'; else :; fi ;;
    token) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--new --code --join --file --help'; else :; fi ;;
    completion) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--help'; else ((_dtrain_last == 2)) && _dtrain_offer 'bash zsh fish'; fi ;;
    install-torchrun) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--help'; else :; fi ;;
    version) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--help'; else :; fi ;;
    help) if [[ $_dtrain_typed == -* ]]; then _dtrain_offer '--help'; else ((_dtrain_last == 2)) && _dtrain_offer 'run plan predict launch shim agent logs status flight ckpt estimate preprocess cache rendezvous doctor env token completion install-torchrun version help exit-codes environment workers nproc nproc-per-node num-proc max-restarts survivors replica-groups role rdzv-id run-id standalone use-gpu virtual-local-rank numa-binding strategy loader keep-state copy-state state-dir engine backend hosts hostfile include exclude ssh ssh-fanout srun spark resources-per-worker ship ship-files ship-limit nnodes node-rank topology rdzv-backend rdzv-endpoint rdzv-conf master-addr master-port local-addr token-file tls-ca tls-cert tls-key insecure ha module no-python run-path stdin attach shutdown-timeout failure-grace signals-to-handle pass-signals contain requeue log-dir tee redirects log-line-prefix-template ranks local-ranks-filter duplicate-stdout-filters duplicate-stderr-filters timestamps fold report event-log-handler color quiet verbose config dry-run print-config print-completion help version monitor-interval start-method logs-specs use-env'; fi ;;
  esac
}

complete -F _dtrain dtrain torchrun
