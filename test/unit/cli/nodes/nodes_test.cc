// The table of torchrun's rules for where nodes meet.
#include "cli/nodes/nodes.h"

#include <fmt/format.h>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

// "host:port ranks min:max" of a plan, or the error.
std::string outcome(const NodesTyped& typed) {
  const auto [plan, error] = plan_nodes(typed);
  if (error) return fmt::format("{}: {}", spelled(flag(error->flag)), error->message);
  const std::string rank = plan.node_rank < 0 ? "any" : std::to_string(plan.node_rank);
  return fmt::format("{}:{} rank {} of {}:{}", plan.host.empty() ? "-" : plan.host, plan.port, rank, plan.min,
                     plan.max);
}

std::vector<std::string> notes(const NodesTyped& typed) { return plan_nodes(typed).plan.notes; }

}  // namespace

TEST_CASE("one node takes a free port unless a static port is typed") {
  CHECK(outcome({}) == "-:0 rank 0 of 1:1");
  CHECK(outcome({.standalone = true}) == "-:0 rank any of 1:1");
  CHECK(outcome({.master_port = "29511"}) == "127.0.0.1:29511 rank 0 of 1:1");
  CHECK(outcome({.master_addr = "h", .master_port = "29511"}) == "h:29511 rank 0 of 1:1");
  CHECK(outcome({.master_addr = "[::1]", .master_port = "29511"}) == "::1:29511 rank 0 of 1:1");  // as its help says
  CHECK(outcome({.master_addr = "h"}) == "-:0 rank 0 of 1:1");
  CHECK(outcome({.endpoint = "h:7"}) == "h:7 rank 0 of 1:1");
  CHECK(outcome({.endpoint = "h"}) == "h:29500 rank 0 of 1:1");
  CHECK(outcome({.backend = "c10d"}) == "-:0 rank any of 1:1");
  CHECK(outcome({.backend = "c10d", .endpoint = "h:7"}) == "-:0 rank any of 1:1");
  CHECK(outcome({.local_addr = "h"}) == "h:0 rank 0 of 1:1");
  CHECK(outcome({.node_rank = "1"}) == "-:0 rank 0 of 1:1");
  CHECK(outcome({.standalone = true, .endpoint = "h:7", .master_port = "9"}) == "-:0 rank any of 1:1");
}

TEST_CASE("several nodes, static") {
  CHECK(outcome({.nnodes = "2"}) == "127.0.0.1:29500 rank 0 of 2:2");
  CHECK(outcome({.nnodes = "2", .node_rank = "1"}) == "127.0.0.1:29500 rank 1 of 2:2");
  CHECK(outcome({.nnodes = "1:3", .node_rank = "2"}) == "127.0.0.1:29500 rank 2 of 3:3");
  CHECK(outcome({.nnodes = "2", .endpoint = "h:7"}) == "h:7 rank 0 of 2:2");
  CHECK(outcome({.nnodes = "2", .conf = "rank=1", .node_rank = "0"}) == "127.0.0.1:29500 rank 0 of 2:2");
  CHECK(outcome({.nnodes = " 1_0", .node_rank = "+9", .master_port = "0_9"}) == "127.0.0.1:9 rank 9 of 10:10");
  CHECK(outcome({.nnodes = "2", .node_rank = "2"}) ==
        "--node-rank: ranks of nodes count from 0, and there are 2 (--nnodes)");
  CHECK(outcome({.node_rank = "1", .master_port = "9"}) ==
        "--node-rank: ranks of nodes count from 0, and there are 1 (--nnodes)");
  CHECK(outcome({.node_rank = "x"}).starts_with("--node-rank: "));
  CHECK(outcome({.nnodes = "2", .node_rank = "x"}).starts_with("--node-rank: "));
  CHECK(outcome({.nnodes = "2", .master_port = "0"}) ==
        "--master-port: the nodes need a port that all of them know, not 0");
  CHECK(outcome({.nnodes = "2", .master_port = "65536"}).starts_with("--master-port: "));
  CHECK(plan_nodes({.nnodes = "2"}).plan.join_timeout == std::chrono::seconds(900));
  CHECK(plan_nodes({.nnodes = "2", .conf = "timeout=3"}).plan.join_timeout == std::chrono::seconds(3));
}

TEST_CASE("several nodes, c10d") {
  CHECK(outcome({.nnodes = "2", .backend = "c10d"}) == "localhost:29400 rank any of 2:2");
  CHECK(outcome({.nnodes = "1:4", .backend = "c10d", .endpoint = "[::1]:8"}) == "::1:8 rank any of 1:4");
  CHECK(outcome({.nnodes = "2", .backend = "c10d", .endpoint = "h"}) == "h:29400 rank any of 2:2");
  CHECK(outcome({.nnodes = "2", .backend = "c10d", .endpoint = "h:0"}) ==
        "--rdzv-endpoint: the nodes need a port that all of them know, not 0");
  CHECK(outcome({.nnodes = "2", .backend = "c10d", .endpoint = "::1:8"}) ==
        "--rdzv-endpoint: an IPv6 address needs brackets: [::1]:29400");
  CHECK(outcome({.nnodes = "2:3", .backend = "c10d", .endpoint = "h:0"}).starts_with("--rdzv-endpoint: "));
  CHECK(outcome({.nnodes = "1:3", .backend = "c10d", .endpoint = "h:0"}) == "h:0 rank any of 1:3");
  const auto plan =
      plan_nodes({.nnodes = "1:2", .backend = "c10d", .conf = " join_timeout=5, last_call_timeout=0.5 "}).plan;
  CHECK(plan.join_timeout == std::chrono::seconds(5));
  CHECK(plan.last_call_timeout == std::chrono::milliseconds(500));
}

TEST_CASE("dtrain: nodes that have a place or a MIN, and no numbers, are numbered as they come") {
  CHECK(as_they_come({.nnodes = "2", .endpoint = "h:7"}));
  CHECK(as_they_come({.nnodes = "2:3", .endpoint = "h:7", .master_addr = "real"}));
  CHECK(as_they_come({.nnodes = "2:3"}));
  CHECK_FALSE(as_they_come({.nnodes = "2"}));
  CHECK_FALSE(as_they_come({.nnodes = "1", .endpoint = "h:7"}));
  CHECK_FALSE(as_they_come({.nnodes = "x", .endpoint = "h:7"}));
  CHECK_FALSE(as_they_come({.nnodes = "2:3", .endpoint = "h:7", .node_rank = "0"}));
  CHECK_FALSE(as_they_come({.nnodes = "2:3", .master_addr = "h"}));
  CHECK_FALSE(as_they_come({.nnodes = "2:3", .master_port = "1"}));
  CHECK_FALSE(as_they_come({.nnodes = "2", .backend = "static", .endpoint = "h:7"}));
  CHECK_FALSE(as_they_come({.nnodes = "3", .ha = true, .endpoint = "a,b,c"}));
  CHECK_FALSE(as_they_come({.nnodes = "1:3", .standalone = true}));
  CHECK_FALSE(as_they_come({.nnodes = "2:3", .endpoint = "h:7", .as_torchrun = true}));
}

TEST_CASE("etcd: a password goes in clear only where that is typed") {
  const auto wrong = [](const char* endpoint, const char* more) {
    const std::string conf = std::string("user=joe,password_file=F") + more;
    const auto verdict = plan_nodes({.nnodes = "2", .backend = "etcd", .endpoint = endpoint, .conf = conf});
    return verdict.error ? verdict.error->message : "";
  };
  CHECK(wrong("a", "") ==
        "the password of user would go to etcd unencrypted: add protocol=https, or protocol=http if you want that");
  CHECK(wrong("localhost,a", "") == wrong("a", ""));
  CHECK(wrong("a", ",protocol=http") == "");
  CHECK(wrong("http://a", "") == "");
  CHECK(wrong("https://a", "") == "");
  CHECK(wrong("localhost,127.0.0.1:7", "") == "");
}

TEST_CASE("what cannot be") {
  for (const char* bad : {"a", "1:", ":1", "", "1:2:3", "1.5", "-1"})
    CHECK(outcome({.nnodes = bad}) == "--nnodes: expected N or MIN:MAX");
  CHECK(outcome({.nnodes = "0"}) == "--nnodes: a job has at least 1 node");
  CHECK(outcome({.nnodes = "0:2"}) == "--nnodes: MIN and MAX are at least 1");
  CHECK(outcome({.nnodes = "2:1"}) == "--nnodes: MIN is above MAX");
  CHECK(outcome({.node_rank = "-1"}) == "-:0 rank 0 of 1:1");
  CHECK(outcome({.nnodes = "1:3", .standalone = true}) == "-:0 rank any of 1:1");
  CHECK(outcome({.nnodes = "2", .standalone = true}).starts_with("--nnodes: --standalone is a job of one node"));
  CHECK(outcome({.backend = "zeus"}) == "--rdzv-backend: expected one of static, c10d, etcd, etcd-v2");
  CHECK(outcome({.conf = "join_timeout"}) == "--rdzv-conf: join_timeout has no value");
  CHECK(outcome({.conf = "a=1,b\nc"}) == "--rdzv-conf: b\\x0ac has no value");
  CHECK(outcome({.conf = "=5"}) == "--rdzv-conf: expected KEY=VALUE,...");
  CHECK(outcome({.conf = "a=1,,b=2"}) == "--rdzv-conf: expected KEY=VALUE,...");
  CHECK(outcome({.conf = "join_timeout=0"}) == "--rdzv-conf: join_timeout must be seconds above 0");
  CHECK(outcome({.standalone = true, .conf = "a"}) == "--rdzv-conf: a has no value");
  for (const char* rank : {"x", "1.5", "", "0x1"})
    CHECK(outcome({.standalone = true, .node_rank = rank}) == "--node-rank: expected a whole number");
  CHECK(outcome({.backend = "c10d", .master_port = "x"}) == "--master-port: expected a whole number");
  CHECK(outcome({.standalone = true, .node_rank = "-7", .master_port = "99999"}) == "-:0 rank any of 1:1");
  CHECK(outcome({.conf = "store_type=file"}) == "--rdzv-conf: store_type must be tcp");
}

TEST_CASE("MASTER_ADDR is real across hosts when asked for, and as torchrun always") {
  const auto real = [](const NodesTyped& typed) { return plan_nodes(typed).plan.real_master; };
  CHECK(real({.nnodes = "2", .backend = "c10d", .endpoint = "10.0.0.1", .master_addr = "real"}));
  CHECK(real({.nnodes = "2", .endpoint = "10.0.0.1", .master_addr = "real"}));
  CHECK(notes({.nnodes = "2", .endpoint = "10.0.0.1", .master_addr = "real"}).empty());
  CHECK_FALSE(real({.nnodes = "2", .backend = "c10d", .endpoint = "10.0.0.1"}));
  CHECK(real({.nnodes = "2", .backend = "c10d", .endpoint = "10.0.0.1", .as_torchrun = true}));
  CHECK_FALSE(real({.nnodes = "2", .as_torchrun = true}));
  CHECK(outcome({.nnodes = "2", .master_addr = "real"}) ==
        "--master-addr: \"real\" names no host: say with --rdzv-endpoint where the nodes meet");
  const NodesTyped one{.backend = "c10d", .master_addr = "real"};
  CHECK_FALSE(real(one));
  CHECK(notes(one).size() == 1);
}

TEST_CASE("what is without effect is said") {
  using Words = std::vector<std::string>;
  CHECK(notes({}).empty());
  CHECK(notes({.node_rank = "0", .master_port = "1"}).empty());
  CHECK(notes({.nnodes = "2", .master_addr = "h", .master_port = "1"}).empty());
  CHECK(notes({.backend = "c10d", .endpoint = "h:1"}) == Words{"no effect here: --rdzv-endpoint"});
  CHECK(notes({.node_rank = "1"}) == Words{"no effect here: --node-rank"});
  CHECK(notes({.master_addr = "h"}) == Words{"no effect here: --master-addr"});
  CHECK(notes({.nnodes = "2", .backend = "c10d", .node_rank = "1", .master_port = "1", .local_addr = "h"}) ==
        Words{"no effect here: --node-rank, --master-port, --local-addr"});
  CHECK(notes({.nnodes = "2", .endpoint = "h:1", .master_addr = "h"}) == Words{"no effect here: --master-addr"});
  CHECK(notes({.standalone = true, .backend = "c10d", .master_addr = "h"}) ==
        Words{"no effect here: --rdzv-backend, --master-addr"});
  CHECK(notes({.conf = "joint_timeout=5"}) == Words{"--rdzv-conf 'joint_timeout' is not known and has no effect"});
  CHECK(notes({.conf = "is_host=1"}) ==
        Words{"--rdzv-conf is_host has no effect: whoever finds the port free is the host"});
  CHECK(notes({.conf = "read_timeout=1"}) ==
        Words{"--rdzv-conf read_timeout has no effect: agents are connected, and nothing is polled"});
  CHECK(notes({.nnodes = "2", .backend = "c10d", .conf = "timeout=5"}) ==
        Words{"--rdzv-conf timeout has no effect with c10d: use join_timeout"});
  CHECK(notes({.nnodes = "2", .conf = "last_call_timeout=5,timeout=3"}) ==
        Words{"--rdzv-conf last_call_timeout has no effect with static: use timeout"});
  CHECK(notes({.conf = "store_type=tcp,join_timeout=4,join_timeout=5"}).empty());
}

TEST_CASE("three or five hosts with an etcd of the job's own: --ha") {
  const auto ha = [](const char* list, const char* conf = "", const char* nnodes = "3") {
    return plan_nodes({.nnodes = nnodes, .ha = true, .endpoint = list, .conf = conf});
  };
  const auto plan = ha("a,b:7,[fd00::1]", "peer_port=9,lease_ttl=3,join_timeout=5", "2:4").plan;
  REQUIRE(plan.etcd->own);
  CHECK(plan.etcd->own->peer_port == 9);
  CHECK(plan.etcd->lease_ttl == 3);
  CHECK(plan.etcd->members.at(0).port == 29400);
  CHECK(plan.etcd->members.at(1).port == 7);
  CHECK(plan.etcd->members.at(2).name == "fd00::1");
  CHECK(plan.across_hosts);
  CHECK(plan.rejoin);
  CHECK(plan.join_timeout == std::chrono::seconds(5));
  CHECK(ha("a,b,c,d,e").plan.etcd->members.size() == 5);
  const auto wrong = [&](const char* list, const char* conf = "", const char* nnodes = "3") {
    const auto verdict = ha(list, conf, nnodes);
    return verdict.error ? verdict.error->message : "";
  };
  CHECK(wrong("a,b") == "--ha needs three or five hosts: HOST[:PORT],HOST[:PORT],HOST[:PORT]");
  CHECK(wrong("a,b,c,d") == wrong("a,b"));
  CHECK(wrong("a,b,a") == "a is named twice");
  CHECK(wrong("a,b,localhost") == "--ha is for several hosts, not for loopback addresses");
  CHECK(wrong("a,b,c", "cacert=f") == "cacert is for an etcd of your own; --ha starts one for the job");
  CHECK(wrong("a,b,c", "peer_port=29400") == "peer_port must differ from the ports of the endpoints");
  CHECK(wrong("a,b,c", "", "1") == "--ha is for a job of several nodes");
  CHECK(plan_nodes({.ha = true, .backend = "static"}).error->flag == FlagId::rdzv_backend);
  CHECK(plan_nodes({.standalone = true, .ha = true}).error->flag == FlagId::ha);
  CHECK(plan_nodes({.nnodes = "2", .backend = "etcd", .endpoint = "a", .conf = "peer_port=1"}).error->message ==
        "peer_port is for --ha");
}

TEST_CASE("a list of endpoints names one host in several ways") {
  const auto c10d = [](const char* list) { return plan_nodes({.nnodes = "2", .backend = "c10d", .endpoint = list}); };
  const auto plan = c10d("a:7, [fd00::1]:7 ,10.0.0.1:7").plan;
  CHECK(plan.host == "a");
  CHECK(plan.port == 7);
  CHECK(plan.more_hosts == std::vector<std::string>{"fd00::1", "10.0.0.1"});
  CHECK(c10d("a,b").plan.port == 29400);
  CHECK(outcome({.nnodes = "2", .endpoint = "a,b"}) == "a:29500 rank 0 of 2:2");
  CHECK(c10d("a:7,b:8").error->message == "a list names one host in several ways, all with the same port");
  CHECK(c10d("a:7,b").error->message == "a list names one host in several ways, all with the same port");
  CHECK(c10d("a,,b").error->message == "expected HOST, HOST:PORT or [IPV6]:PORT");
  for (const char* list : {"localhost,a", "a,127.0.0.1"})
    CHECK(c10d(list).error->message == "a loopback address is this host alone, and needs no list");
}

TEST_CASE("endpoints") {
  auto text = [](std::string_view endpoint) {
    const auto parsed = parse_endpoint(endpoint);
    if (!parsed) return std::string("error");
    return fmt::format("{} {}", parsed->host, parsed->port ? std::to_string(*parsed->port) : "-");
  };
  CHECK(text("h") == "h -");
  CHECK(text("h:0") == "h 0");
  CHECK(text("h:65535") == "h 65535");
  CHECK(text("[::1]") == "::1 -");
  CHECK(text("[::1]:80") == "::1 80");
  CHECK(parse_endpoint("http://h:1").error().message == "leave out http://");
  CHECK(outcome({.nnodes = "2", .endpoint = "tcp://h"}) == "--rdzv-endpoint: leave out tcp://");
  CHECK(plan_nodes({.nnodes = "3", .ha = true, .endpoint = "a,b,http://c"}).error->message == "leave out http://");
  for (const char* bad : {"", ":1", "h:", "h:65536", "h:x", "[::1", "[::1]80", "[::1]:", "::1", "a b", "[]:1", "h:-1"})
    CHECK(text(bad) == "error");
}

TEST_CASE("a place that is not loopback is across hosts, where agents show that they live") {
  const auto across = [](NodesTyped typed) { return plan_nodes(typed).plan.across_hosts; };
  CHECK(across({.nnodes = "2", .master_addr = "h"}));
  CHECK(across({.nnodes = "2", .backend = "c10d", .endpoint = "10.0.0.1"}));
  CHECK(across({.nnodes = "2", .backend = "c10d", .endpoint = "[fd00::1]:7"}));
  CHECK_FALSE(across({.nnodes = "2"}));
  CHECK_FALSE(across({.nnodes = "2", .backend = "c10d", .endpoint = "localhost:7"}));
  CHECK_FALSE(across({.nnodes = "2", .backend = "c10d", .endpoint = "[::1]:7"}));
  CHECK_FALSE(across({.nnodes = "1", .master_addr = "h", .master_port = "7"}));
  const NodesTyped typed{
      .nnodes = "2", .backend = "c10d", .endpoint = "h", .conf = "keep_alive_interval=2,keep_alive_max_attempt=5"};
  CHECK(plan_nodes(typed).plan.pulse == PulseSettings{std::chrono::seconds(2), 5});
  CHECK(notes(typed).empty());
  CHECK(outcome({.nnodes = "2", .backend = "c10d", .endpoint = "h", .conf = "keep_alive_max_attempt=2"}) ==
        "--rdzv-conf: keep_alive_max_attempt must be a number from 3 to 1000");
  CHECK(notes({.nnodes = "2", .backend = "c10d", .conf = "keep_alive_interval=2"}).size() == 1);
}

TEST_CASE("nodes that meet by etcd") {
  const auto etcd = [](const char* endpoint, const char* conf = "", const char* nnodes = "2") {
    return plan_nodes({.nnodes = nnodes, .backend = "etcd", .endpoint = endpoint, .conf = conf});
  };
  const auto wrong = [&](const char* endpoint, const char* conf = "") {
    const auto verdict = etcd(endpoint, conf);
    return verdict.error ? spelled(flag(verdict.error->flag)) + ": " + verdict.error->message : "";
  };
  const auto plan = etcd("a,b:9,[::1]:7", "lease_ttl=5,join_timeout=3,keep_alive_interval=2").plan;
  REQUIRE(plan.etcd);
  REQUIRE(plan.etcd->members.size() == 3);
  CHECK(plan.etcd->members[0].name == "a");
  CHECK(plan.etcd->members[0].port == 2379);
  CHECK(plan.etcd->members[1].port == 9);
  CHECK(plan.etcd->members[2].name == "::1");
  CHECK(plan.etcd->prefix == "/dtrain");
  CHECK(plan.etcd->lease_ttl == 5);
  CHECK_FALSE(plan.etcd->https);
  CHECK(plan.across_hosts);
  CHECK(plan.node_rank == -1);
  CHECK(plan.join_timeout == std::chrono::seconds(3));
  CHECK(plan.pulse.interval == std::chrono::seconds(2));
  CHECK(plan.notes.empty());

  const auto secure =
      etcd("https://a/,https://b", "ca_cert=c,ssl_cert=d,ssl_cert_key=e,user=u,password_file=p,etcd_prefix=/x/").plan;
  REQUIRE(secure.etcd);
  CHECK(secure.etcd->https);
  CHECK(secure.etcd->ca + secure.etcd->certificate + secure.etcd->key == "cde");
  CHECK(secure.etcd->user + secure.etcd->password_file == "up");
  CHECK(secure.etcd->prefix == "/x");
  CHECK(etcd("a", "protocol=https").plan.etcd->https);
  CHECK_FALSE(plan_nodes({.nnodes = "1", .backend = "etcd-v2"}).plan.etcd);

  CHECK(wrong("") == "--rdzv-endpoint: expected HOST, HOST:PORT or [IPV6]:PORT");
  CHECK(wrong("a,,b") == "--rdzv-endpoint: expected HOST, HOST:PORT or [IPV6]:PORT");
  CHECK(wrong("a:0") == "--rdzv-endpoint: the port must not be 0");
  CHECK(wrong("ftp://a") == "--rdzv-endpoint: expected http:// or https://, or neither");
  CHECK(wrong("http://a,https://b") == "--rdzv-endpoint: all members must use http, or all https");
  CHECK(wrong("http://root:pw@a").starts_with("--rdzv-endpoint: give the user with --rdzv-conf"));
  CHECK(wrong("a", "protocol=ftp") == "--rdzv-conf: protocol must be http or https");
  CHECK(wrong("a", "cacert=x") == "--rdzv-conf: certificates are for protocol=https");
  CHECK(wrong("a", "protocol=https,key=x") == "--rdzv-conf: key needs cert");
  CHECK(wrong("a", "user=x") == "--rdzv-conf: user and password_file go together");
  CHECK(wrong("a", "lease_ttl=0") == "--rdzv-conf: lease_ttl must be whole seconds from 1 to 600");
}
