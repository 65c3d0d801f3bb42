#pragma once
// Flags: nodes and how they find each other.
#include "cli/table/flags.h"

namespace dtrain::cli {

inline constexpr Flag kNodesFlags[] = {
    {.id = FlagId::nnodes,
     .group = Group::nodes,
     .name = "nnodes",
     .value = "MIN:MAX",
     .fallback = "1:1",
     .pet = "NNODES",
     .help = "how many nodes (agents) form the job: N or MIN:MAX",
     .details = "The same command is typed once for each node, on one host or several. Between MIN and MAX nodes may "
                "come and go with c10d; a static job waits for MAX."},
    {.id = FlagId::node_rank,
     .group = Group::nodes,
     .name = "node-rank",
     .value = "N",
     .fallback = "0",
     .pet = "NODE_RANK",
     .help = "number of this node in a static job, from 0",
     .details = "Node 0 hosts the job. With c10d the nodes are numbered as they come."},
    {.id = FlagId::topology,
     .group = Group::nodes,
     .name = "topology",
     .value = "NAME",
     .help = "where this node is (a rack): equals get ranks in a row",
     .details =
         "Nodes as they come (c10d): those with the same NAME follow each other in the order of the ranks, and of "
         "those the ones on one host."},
    {.id = FlagId::rdzv_backend,
     .group = Group::nodes,
     .name = "rdzv-backend",
     .value = "NAME",
     .choices = "static,c10d,etcd,etcd-v2",
     .fallback = "static",
     .pet = "RDZV_BACKEND",
     .help = "static, c10d or etcd: how the nodes find each other",
     .details = "static: node 0 is at --master-addr and --master-port. c10d: the first node whose host --rdzv-endpoint "
                "names hosts the job. etcd (or etcd-v2, which means the same): any node hosts the job, and another one "
                "goes on if it is lost; --rdzv-endpoint names the members of your etcd, version 3.4 or later. Left "
                "out, it is c10d where an endpoint or MIN:MAX is given and no number or address of node 0 (not by the "
                "name torchrun)."},
    {.id = FlagId::rdzv_endpoint,
     .group = Group::nodes,
     .name = "rdzv-endpoint",
     .value = "HOST:PORT",
     .pet = "RDZV_ENDPOINT",
     .help = "where the nodes meet",
     .details = "Default with c10d: localhost:29400. With static it stands for --master-addr and --master-port. One "
                "node with c10d needs none and uses a free port. With etcd HOST[:PORT],... (2379). Any other place "
                "than localhost or a loopback address "
                "means several hosts, which need a token (--token-file). HOST:PORT,HOST:PORT,... are names and "
                "addresses of one and the same host, tried in turn. A name that is not known yet is waited for."},
    {.id = FlagId::rdzv_conf,
     .group = Group::nodes,
     .name = "rdzv-conf",
     .value = "K=V,...",
     .pet = "RDZV_CONF",
     .help = "join_timeout, last_call_timeout, timeout: seconds",
     .details =
         "c10d: join_timeout (600) for MIN nodes to come, then last_call_timeout (30) for more. static: timeout "
         "(900) for all nodes to come. Across hosts keep_alive_interval (1) and keep_alive_max_attempt (3) say "
         "when a silent node is lost. etcd: protocol (http), cacert, cert, key, user, password_file, etcd_prefix "
         "(/dtrain), lease_ttl (2). Unknown keys are said and have no effect."},
    {.id = FlagId::master_addr,
     .group = Group::nodes,
     .name = "master-addr",
     .value = "HOST",
     .fallback = "127.0.0.1",
     .pet = "MASTER_ADDR",
     .help = "address of node 0 of a static job (MASTER_ADDR)",
     .details =
         "Where it is another place than loopback the job is across hosts, which need a token (--token-file). "
         "`--master-addr real` with --rdzv-endpoint: workers on all hosts get the real address of the job's host "
         "as MASTER_ADDR, as with torchrun, not that of their own agent, and go to the store there themselves."},
    {.id = FlagId::master_port,
     .group = Group::nodes,
     .name = "master-port",
     .value = "PORT",
     .pet = "MASTER_PORT",
     .help = "port of node 0 of a static job (MASTER_PORT)",
     .details = "Default: 29500; one node alone uses a free port unless this flag is given."},
    {.id = FlagId::local_addr,
     .group = Group::nodes,
     .name = "local-addr",
     .value = "HOST",
     .pet = "LOCAL_ADDR",
     .help = "address of this host for a node alone (MASTER_ADDR)",
     .details = "Where the store of a job of one node on a free port listens. Otherwise without effect."},
    {.id = FlagId::token_file,
     .group = Group::nodes,
     .name = "token-file",
     .value = "FILE",
     .help = "file with the token that all nodes of a job share",
     .details =
         "Only for jobs across hosts. Read only if nobody else may read it (mode 0600). Without the flag: "
         "DTRAIN_TOKEN, then DTRAIN_TOKEN_FILE, then MUNGE in a step of SLURM, then ~/.config/dtrain/token, which "
         "`dtrain token --new` makes. The token itself is never given as an argument."},
    {.id = FlagId::tls_ca,
     .group = Group::nodes,
     .name = "tls-ca",
     .value = "FILE",
     .help = "certificates instead of a token: of the site's authority",
     .details = "Only for jobs across hosts; with --tls-cert and --tls-key, all of them PEM files. Whoever has a "
                "certificate of an authority in FILE can join, whatever name is in it: use one of your own for the "
                "users of the job, not one that others trust too. No token is looked for."},
    {.id = FlagId::tls_cert,
     .group = Group::nodes,
     .name = "tls-cert",
     .value = "FILE",
     .help = "this node's certificate, with --tls-ca",
     .details = "Certificates of authorities between it and --tls-ca may follow it in the file."},
    {.id = FlagId::tls_key,
     .group = Group::nodes,
     .name = "tls-key",
     .value = "FILE",
     .help = "the private key of --tls-cert",
     .details = "Without a passphrase. Read only if nobody else may read it (mode 0600)."},
    {.id = FlagId::insecure,
     .group = Group::nodes,
     .name = "insecure",
     .help = "join hosts without a token, for all to read and to join",
     .details = "The links between hosts are then neither encrypted nor authenticated: whoever reaches the job's port "
                "can join the job and run its program. All nodes must say it."},
    {.id = FlagId::ha,
     .group = Group::nodes,
     .name = "ha",
     .help = "start an etcd of the job's own: any host may be lost",
     .details = "--rdzv-endpoint HOST[:PORT],HOST[:PORT],HOST[:PORT] names three (or five) hosts, the same list on all "
                "nodes. Nodes on these run a member of etcd each for as long as the job lives, so that any of them may "
                "be lost, also the one that hosts the job. etcd must be installed there. Two ports each: PORT (29400), "
                "and the next one or --rdzv-conf peer_port."},
};

}  // namespace dtrain::cli
