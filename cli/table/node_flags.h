#pragma once
// Flags: nodes and how they find each other.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kNodesFlags[] = {
    {.id = FlagId::engine,
     .group = Group::nodes,
     .name = "engine",
     .value = "NAME",
     .choices = "auto,local,slurm,ray,spark,mpi,ssh",
     .fallback = "auto",
     .help = "what starts the agents: slurm, ray, spark, mpi or ssh",
     .details =
         "auto: --hosts or --hostfile if you give one, else the scheduler or launcher that has started dtrain, "
         "if it has (`dtrain doctor` shows it). local: this node only, or the nodes as the flags below say. "
         "slurm: in a step, that step; elsewhere dtrain starts one by srun, on --nnodes nodes. ray: on --nnodes "
         "nodes of the cluster of RAY_ADDRESS, or of the one that runs on this host. spark: in --nnodes tasks of "
         "the cluster whose master --spark, MASTER or spark-defaults.conf names. mpi: an error if no MPI "
         "launcher has started dtrain. ssh needs --hosts or --hostfile."},
    {.id = FlagId::backend,
     .group = Group::nodes,
     .name = "backend",
     .value = "NAME|FILE",
     .help = "the same as --engine NAME or --config FILE, as in Ludwig",
     .details = "A value with a dot or a slash is the name of a FILE. Not in the environment."},
    {.id = FlagId::hosts,
     .group = Group::nodes,
     .name = "hosts",
     .letter = 'H',
     .value = "HOST[:SLOTS],...",
     .help = "start an agent on each of these hosts by ssh",
     .details =
         "SLOTS is the number of workers there, the default for --nproc. node[1-4]:8 means four hosts. Where the "
         "nodes meet and the job's token need no flags. Variables and the working folder are those of this "
         "command. No host asks for a password, so use keys. localhost, and this host's own name, need no ssh."},
    {.id = FlagId::hostfile,
     .group = Group::nodes,
     .name = "hostfile",
     .value = "FILE",
     .help = "the same, from a file: a line HOST, HOST slots=N or HOST:N",
     .details = "The lines of one host add up. # begins a comment."},
    {.id = FlagId::include,
     .group = Group::nodes,
     .name = "include",
     .value = "HOST[:SLOT,...]@...",
     .help = "only these hosts, or these slots of theirs",
     .details = "As with DeepSpeed. Slots count from 0. With slots, CUDA_VISIBLE_DEVICES names them on that host."},
    {.id = FlagId::exclude,
     .group = Group::nodes,
     .name = "exclude",
     .value = "HOST[:SLOT,...]@...",
     .help = "all hosts or slots but these"},
    {.id = FlagId::ssh,
     .group = Group::nodes,
     .name = "ssh",
     .value = "COMMAND",
     .fallback = "ssh",
     .help = "what runs a command on a host, e.g. 'ssh -p 2222'",
     .details = "The words are split at blanks; options of dtrain's own, the host and the command follow."},
    {.id = FlagId::ssh_fanout,
     .group = Group::nodes,
     .name = "ssh-fanout",
     .value = "N",
     .fallback = "64",
     .help = "how many hosts one host starts by ssh; 0: all",
     .details = "With more than N hosts, this host starts N of them, and each of these N of the rest, and so on. So "
                "hosts must reach each other by ssh without a password. 0: this host starts all, as it does for "
                "--nnodes MIN:MAX. See docs/hosts.md."},
    {.id = FlagId::srun,
     .group = Group::nodes,
     .name = "srun",
     .value = "OPTIONS",
     .help = "options of srun for --engine slurm, e.g. '-p gpu -t 60'",
     .details = "The words are split at blanks."},
    {.id = FlagId::spark,
     .group = Group::nodes,
     .name = "spark",
     .value = "OPTIONS",
     .help = "options of spark-submit for --engine spark",
     .details = "E.g. '--master spark://head:7077 --conf spark.executor.memory=4g'. Words are split and quoted as in a "
                "shell."},
    {.id = FlagId::resources,
     .group = Group::nodes,
     .name = "resources-per-worker",
     .value = "NAME=N,...",
     .help = "what each worker takes, e.g. CPU=2,GPU=1",
     .details =
         "By the cluster's names, those of your own too. Default with Ray: CPU=1, and GPU=1 if the cluster has GPUs "
         "and "
         "--nproc is not cpu; with Spark, what spark-defaults.conf and --spark say of a task. Of GPUs, a worker takes "
         "whole ones."},
    {.id = FlagId::ship,
     .group = Group::nodes,
     .name = "ship",
     .help = "take the program to nodes that lack it",
     .details =
         "For --hosts, and --engine ray or spark. The program, or the script, must lie below the working folder. "
         "A node that lacks it, or has another content at its place, gets it in a folder of the job's own, in "
         "$TMPDIR or the like. Its workers work there, and the folder is removed with all that is in it when "
         "the job ends. See docs/ship.md."},
    {.id = FlagId::ship_files,
     .group = Group::nodes,
     .name = "ship-files",
     .value = "PATH,...",
     .help = "take these files and folders along too; implies --ship",
     .details = "They must lie below the working folder, and keep their places in it. Of a folder, hidden files and "
                "__pycache__ stay behind. ,, is a comma in a name."},
    {.id = FlagId::ship_limit,
     .group = Group::nodes,
     .name = "ship-limit",
     .value = "MIB",
     .fallback = "256",
     .help = "the most that --ship may take along",
     .details = "1 to 16384. More is an error, before anything starts."},
    {.id = FlagId::nnodes,
     .group = Group::nodes,
     .name = "nnodes",
     .value = "MIN:MAX",
     .fallback = "1:1",
     .pet = "NNODES",
     .help = "how many nodes (agents) form the job: N or MIN:MAX",
     .details = "Start the same command once for each node, on one host or several. With c10d, nodes may come and go "
                "between MIN and MAX. A static job waits for MAX nodes."},
    {.id = FlagId::node_rank,
     .group = Group::nodes,
     .name = "node-rank",
     .value = "N",
     .fallback = "0",
     .pet = "NODE_RANK",
     .help = "number of this node in a static job, from 0",
     .details = "Node 0 hosts the job. With c10d, the job numbers the nodes itself."},
    {.id = FlagId::topology,
     .group = Group::nodes,
     .name = "topology",
     .value = "NAME",
     .help = "where this node is, e.g. its rack: orders the ranks",
     .details = "With c10d, nodes with the same NAME follow each other in the order of the ranks. Among them, nodes on "
                "the same host follow each other."},
    {.id = FlagId::rdzv_backend,
     .group = Group::nodes,
     .name = "rdzv-backend",
     .value = "NAME",
     .choices = "static,c10d,etcd,etcd-v2",
     .fallback = "static",
     .pet = "RDZV_BACKEND",
     .help = "how the nodes find each other: static, c10d or etcd",
     .details = "static: node 0 is at --master-addr and --master-port. c10d: the first node on the host in "
                "--rdzv-endpoint hosts the job. etcd (etcd-v2 means the same): any node can host the job. If that node "
                "is lost, another one takes its place. --rdzv-endpoint then names the members of your etcd, version "
                "3.4 or later. Without this flag, dtrain takes c10d if you give --rdzv-endpoint or MIN:MAX, and no "
                "rank, address or port of node 0. Called as torchrun, it takes static."},
    {.id = FlagId::rdzv_endpoint,
     .group = Group::nodes,
     .name = "rdzv-endpoint",
     .value = "HOST:PORT",
     .pet = "RDZV_ENDPOINT",
     .help = "where the nodes meet",
     .details = "Default with c10d: localhost:29400; a job of one node uses a free port instead. With static it stands "
                "for --master-addr and --master-port. With etcd it is a list of members, HOST[:PORT],..., with 2379 as "
                "the default port. Any place other than localhost or a loopback address means several hosts, which "
                "need a token (--token-file). With c10d, HOST:PORT,HOST:PORT,... gives several names or addresses of "
                "one host, and dtrain tries them in turn. If a name is not known yet, dtrain waits for it."},
    {.id = FlagId::rdzv_conf,
     .group = Group::nodes,
     .name = "rdzv-conf",
     .value = "K=V,...",
     .pet = "RDZV_CONF",
     .help = "seconds: join_timeout, last_call_timeout, timeout",
     .details =
         "c10d: dtrain waits join_timeout (600) for MIN nodes, then last_call_timeout (30) for more. static: it waits "
         "timeout (900) for all nodes. Across hosts, keep_alive_interval (1) and keep_alive_max_attempt (3) decide "
         "when a silent node counts as lost. etcd: protocol (http), cacert, cert, key, user, password_file, "
         "etcd_prefix (/dtrain), lease_ttl (2). Unknown keys have no effect, and dtrain names them."},
    {.id = FlagId::master_addr,
     .group = Group::nodes,
     .name = "master-addr",
     .value = "HOST",
     .fallback = "127.0.0.1",
     .pet = "MASTER_ADDR",
     .help = "address of node 0 of a static job (MASTER_ADDR)",
     .details =
         "Any address other than a loopback address means several hosts, which need a token (--token-file). With "
         "--rdzv-endpoint, `--master-addr real` gives the workers on all hosts the address of the job's host as "
         "MASTER_ADDR, as torchrun does. They then connect to the store on that host, and not to their own agent."},
    {.id = FlagId::master_port,
     .group = Group::nodes,
     .name = "master-port",
     .value = "PORT",
     .pet = "MASTER_PORT",
     .help = "port of node 0 of a static job (MASTER_PORT)",
     .details = "Default: 29500. A job of one node uses a free port unless this flag is given."},
    {.id = FlagId::local_addr,
     .group = Group::nodes,
     .name = "local-addr",
     .value = "HOST",
     .pet = "LOCAL_ADDR",
     .help = "address of this host, if it is the only node",
     .details = "The store of a job of one node on a free port listens there. In other jobs the flag has no effect."},
    {.id = FlagId::token_file,
     .group = Group::nodes,
     .name = "token-file",
     .value = "FILE",
     .help = "file with the token that all nodes of a job share",
     .details =
         "Only for jobs across hosts. No other user may have access to the file (mode 0600). Without this flag, dtrain "
         "takes DTRAIN_TOKEN, then DTRAIN_TOKEN_FILE, then MUNGE in a SLURM step, then ~/.config/dtrain/token, which "
         "`dtrain token --new` makes. Never give the token itself as an argument."},
    {.id = FlagId::tls_ca,
     .group = Group::nodes,
     .name = "tls-ca",
     .value = "FILE",
     .help = "use certificates, not a token: the site's authority",
     .details = "Only for jobs across hosts, together with --tls-cert and --tls-key. All three are PEM files. Anybody "
                "with a certificate of an authority in FILE can join the job, whatever name the certificate has. So "
                "use an authority that is only for the users of the job. dtrain then looks for no token."},
    {.id = FlagId::tls_cert,
     .group = Group::nodes,
     .name = "tls-cert",
     .value = "FILE",
     .help = "this node's certificate, with --tls-ca",
     .details = "Certificates of the authorities between this certificate and --tls-ca may follow it in the file."},
    {.id = FlagId::tls_key,
     .group = Group::nodes,
     .name = "tls-key",
     .value = "FILE",
     .help = "the private key of --tls-cert",
     .details = "It must have no passphrase, and no other user may have access to the file (mode 0600)."},
    {.id = FlagId::insecure,
     .group = Group::nodes,
     .name = "insecure",
     .help = "join hosts without a token; anybody can read and join",
     .details = "The links between hosts are then neither encrypted nor authenticated. Anybody who reaches the job's "
                "port can join the job and run its program. All nodes must have this flag."},
    {.id = FlagId::ha,
     .group = Group::nodes,
     .name = "ha",
     .help = "start an etcd for the job: any host may be lost",
     .details = "--rdzv-endpoint HOST[:PORT],HOST[:PORT],HOST[:PORT] names three or five hosts. Give the same list on "
                "all nodes. On each of these hosts, one node runs a member of etcd as long as the job lives. Any of "
                "the hosts may then be lost, including the one that hosts the job. etcd must be installed there. Each "
                "member uses two ports: PORT (29400), and the next one or --rdzv-conf peer_port."},
};

}  // namespace dtrain::cli
