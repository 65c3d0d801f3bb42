// `dtrain status` for people: an agent's answer, whatever it is, becomes readable lines.
#include "cli/commands/status_text.h"

#include <nlohmann/json.hpp>

#include "launcher/status/status_report.h"
#include "test/support/catch.h"

using namespace dtrain;
using dtrain::cli::status_text;
using Json = nlohmann::ordered_json;

namespace {

launcher::AgentFacts facts() {
  launcher::AgentFacts facts;
  facts.job = "exp7";
  facts.host = "node1";
  facts.program = "train.py";
  facts.agent = 11;
  facts.age = std::chrono::milliseconds(90000);
  facts.phase = "running";
  facts.phase_age = std::chrono::milliseconds(1500);
  facts.round = 1;
  facts.restarts = 1;
  facts.max_restarts = 3;
  facts.nodes = 2;
  facts.world_size = 3;
  facts.workers = {{0, 0, 21, "running", std::chrono::milliseconds(1400)},
                   {1, 1, 0, "not started yet", std::chrono::milliseconds(0)}};
  facts.decisions = {{1500, "round 1 begins with 2 workers on this node"}};
  facts.memory = 21 << 20;
  facts.store.emplace();
  facts.store->keys = 12;
  facts.store->bytes = 3000;
  facts.store->connections_open = 3;
  facts.store->connections_waiting = facts.store->links = 1;
  facts.several = true;
  facts.endpoint = "node1:29400";
  facts.hosts = true;
  JobFacts rounds;
  rounds.phase = "running";
  rounds.round = 1;
  rounds.nodes = 3;
  rounds.max_nodes = 2;
  rounds.min_nodes = 2;
  rounds.list = {{"node1", 11, 0, 0, 2, "running"}, {"node2", 7, 1, 2, 1, "running"}};
  rounds.decisions = {{1500, "round 1 opens with 2 nodes, restart 1 of 3: rank 2 failed"}};
  facts.rounds = rounds;
  return facts;
}

}  // namespace

TEST_CASE("status: a node of a job of several") {
  CHECK(status_text(Json::parse(status_json(facts()))) ==
        "job exp7, node 0 of 2: running, round 1, for 1.5 s, 1 of 3 restarts used\n"
        "  train.py, agent 11 on host node1, since 1 min 30 s, memory 21.0 MiB\n"
        "  rounds: running, round 1, for 0 ms; 3 of 2 nodes; hosted by this agent\n"
        "    node 0    node1            agent 11       2 workers (ranks 0-1)  running, this one\n"
        "    node 1    node2            agent 7        1 worker (rank 2)  running\n"
        "    and 1 more\n"
        "  decisions of the job:\n"
        "           1.5 s ago  round 1 opens with 2 nodes, restart 1 of 3: rank 2 failed\n"
        "  store: 12 keys, 2.9 KiB; 3 connections, 1 waiting, 0 refused; 1 link\n"
        "  workers of this node:\n"
        "    rank 0    local rank 0    pid 21       running, 1.4 s\n"
        "    rank 1    local rank 1    not started yet\n"
        "  decisions of this agent:\n"
        "           1.5 s ago  round 1 begins with 2 workers on this node\n");
}

TEST_CASE("status: while nodes are missing, and while their host does not answer") {
  launcher::AgentFacts waits = facts();
  waits.hosts = false;
  waits.round = waits.rounds->round = -1;
  waits.rounds->left_ms = 12000;
  waits.rounds->missing = "missing node 1";
  const std::string text = status_text(Json::parse(status_json(waits)));
  CHECK(text.find("running, no round yet, for") != std::string::npos);
  CHECK(text.find("hosted by node1:29400\n    waiting for nodes, missing node 1: 12.0 s left\n") != std::string::npos);
  waits.rounds.reset();
  waits.waiting = "nobody at node1:29400 yet";
  CHECK(status_text(Json::parse(status_json(waits)))
            .find("  rounds: no word from their host (node1:29400); waiting: nobody at node1:29400 yet\n") !=
        std::string::npos);
}

TEST_CASE("status: answers of other shapes, and words that a terminal must not see, do no harm") {
  for (const char* text : {"{}", R"({"workers":7,"rounds":[],"decisions":[1,"x",{}],"job":null})",
                           R"({"rounds":{"nodes":[{"node_rank":"x"}]},"age_s":"long","phase_s":1e300})"})
    CHECK(status_text(Json::parse(text)).starts_with("job "));
  launcher::AgentFacts hostile = facts();
  hostile.program = "a\x1b[31m\nb\xff";
  const std::string text = status_text(Json::parse(status_json(hostile)));
  CHECK(text.find('\x1b') == std::string::npos);
  CHECK(text.find("\nb") == std::string::npos);
}

TEST_CASE("status: an answer is bounded") {
  launcher::AgentFacts many = facts();
  many.workers.assign(65536, {65535, 65535, 4000000, "was killed by SIGKILL", std::chrono::milliseconds(100000000)});
  many.decisions.assign(kDecisions, {100000000, std::string(kDecisionBytes, 'x')});
  many.rounds->decisions = many.decisions;
  many.rounds->list.assign(kFactsNodes, {std::string(kFactsNameBytes, 'h'), 4000000, 99999, 99999, 99999, "running"});
  CHECK(status_json(many).size() < std::size_t{128} << 10);
}

TEST_CASE("a server tells of all its jobs, and of as many nodes and decisions as there is room for") {
  launcher::ServerFacts server;
  server.where = "port 29400";
  JobFacts job;
  job.phase = "running";
  job.round = 0;
  job.list.assign(kFactsNodes, {std::string(kFactsNameBytes, 'h'), 1234567, 1, 1, 8, "running"});
  job.decisions.assign(kDecisions, {1000, std::string(kDecisionBytes, 'd')});
  for (int i = 0; i < 256; ++i) server.jobs.emplace_back("job-" + std::to_string(i) + std::string(100, 'x'), job);
  server.job_count = server.jobs.size();
  const std::string text = status_json(server);
  CHECK(text.size() < launcher::kStatusBytes);
  Json answer = Json::parse(text);
  REQUIRE(answer["jobs"].size() == 256);
  CHECK(answer["jobs"][0]["rounds"]["nodes"].size() == kFactsNodes);
  CHECK(answer["jobs"][0]["rounds"]["decisions"].size() == kDecisions);
  CHECK(answer["jobs"][255]["rounds"]["nodes"].empty());
  CHECK(answer["jobs"][255]["rounds"]["phase"] == "running");
  CHECK(cli::unlisted_jobs(answer) == 0);
  // With control characters in their names, which JSON writes in six bytes, there is room for some of them.
  for (auto& [name, facts] : server.jobs) name.assign(1000, '\x01');
  answer = Json::parse(status_json(server));
  CHECK(cli::unlisted_jobs(answer) > 100);
  CHECK(answer["jobs"].size() + static_cast<std::size_t>(cli::unlisted_jobs(answer)) == 256);
}
