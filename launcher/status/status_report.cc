#include "launcher/status/status_report.h"

#include <nlohmann/json.hpp>

namespace dtrain::launcher {

namespace {

using OrderedJson = nlohmann::ordered_json;
using std::chrono::milliseconds;

constexpr std::size_t kServerBytes = 4096;  // of a server's answer, without its jobs

OrderedJson decisions(const std::vector<Decision>& all) {
  OrderedJson list = OrderedJson::array();
  for (const Decision& d : all) list.push_back({{"age_s", in_seconds(milliseconds(d.age_ms))}, {"text", d.text}});
  return list;
}

OrderedJson rounds(const JobFacts& job) {
  OrderedJson nodes = OrderedJson::array();
  for (const NodeFacts& n : job.list) {
    nodes.push_back({{"node_rank", n.node_rank < 0 ? OrderedJson() : OrderedJson(n.node_rank)},
                     {"host", n.host},
                     {"agent", n.agent},
                     {"workers", n.workers},
                     {"state", n.state}});
    if (n.node_rank >= 0 && job.round >= 0) nodes.back()["first_rank"] = n.base_rank;
  }
  OrderedJson out = {{"phase", job.phase},
                     {"phase_s", in_seconds(milliseconds(job.phase_ms))},
                     {"round", job.round < 0 ? OrderedJson() : OrderedJson(job.round)},
                     {"restarts", job.restarts},
                     {"nodes_here", job.nodes},
                     {"min_nodes", job.min_nodes},
                     {"max_nodes", job.max_nodes}};
  if (job.left_ms >= 0) out["left_s"] = in_seconds(milliseconds(job.left_ms));
  if (!job.missing.empty()) out["missing"] = job.missing;
  out["nodes"] = std::move(nodes);
  out["decisions"] = decisions(job.decisions);
  return out;
}

OrderedJson workers(const std::vector<WorkerNow>& all) {
  OrderedJson list = OrderedJson::array();
  for (const WorkerNow& w : all) {
    if (list.size() == kStatusWorkers) break;
    list.push_back({{"rank", w.rank},
                    {"local_rank", w.local_rank},
                    {"pid", w.pid == 0 ? OrderedJson() : OrderedJson(w.pid)},
                    {"state", w.state},
                    {"age_s", in_seconds(w.age)},
                    {"cpu_s", w.cpu ? OrderedJson(in_seconds(*w.cpu)) : OrderedJson()},
                    {"idle_s", w.idle ? OrderedJson(in_seconds(*w.idle)) : OrderedJson()}});
  }
  return list;
}

std::string dumped(const OrderedJson& json) { return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace); }

OrderedJson job_of_server(const std::string& name, const JobFacts& job) {
  OrderedJson one = {{"job", name}};
  one["rounds"] = rounds(job);
  return one;
}

OrderedJson store(const StoreStats& stats) {
  return {{"keys", stats.keys},
          {"bytes", stats.bytes},
          {"connections", stats.connections_open + stats.link_connections},
          {"waiting", stats.connections_waiting},
          {"refused", stats.connections_refused},
          {"links", stats.links}};
}

JobFacts brief(JobFacts job) {
  job.list.clear();
  job.decisions.clear();
  return job;
}

OrderedJson jobs_of_server(const ServerFacts& facts) {
  std::size_t room = kStatusBytes - kServerBytes;
  std::vector<std::size_t> sizes;
  OrderedJson jobs = OrderedJson::array();
  for (const auto& [name, job] : facts.jobs) {
    OrderedJson one = job_of_server(name, brief(job));
    const std::size_t size = dumped(one).size() + 1;
    if (size > room) break;
    room -= size;
    sizes.push_back(size);
    jobs.push_back(std::move(one));
  }
  // With what is left.
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto& [name, job] = facts.jobs[i];
    OrderedJson one = job_of_server(name, job);
    const std::size_t more = dumped(one).size() + 1 - sizes[i];
    if (more > room) break;
    room -= more;
    jobs[i] = std::move(one);
  }
  return jobs;
}

}  // namespace

std::string status_json(const AgentFacts& facts) {
  OrderedJson out = {{"job", facts.job},
                     {"host", facts.host},
                     {"agent", facts.agent},
                     {"program", facts.program},
                     {"age_s", in_seconds(facts.age)},
                     {"phase", facts.phase},
                     {"phase_s", in_seconds(facts.phase_age)},
                     {"round", facts.round < 0 ? OrderedJson() : OrderedJson(facts.round)},
                     {"restarts", facts.restarts},
                     {"max_restarts", facts.max_restarts},
                     {"node_rank", facts.node_rank < 0 ? OrderedJson() : OrderedJson(facts.node_rank)},
                     {"nodes", facts.nodes},
                     {"world_size", facts.world_size},
                     {"worker_count", facts.workers.size()},
                     {"workers", workers(facts.workers)},
                     {"decisions", decisions(facts.decisions)},
                     {"memory_bytes", facts.memory},
                     {"store", facts.store ? store(*facts.store) : OrderedJson()}};
  if (facts.several) {
    out["endpoint"] = facts.endpoint;
    out["hosts_rounds"] = facts.hosts;
    out["waiting"] = facts.waiting;
    out["rounds"] = facts.rounds ? rounds(*facts.rounds) : OrderedJson();
  }
  return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

std::string status_json(const ServerFacts& facts) {
  const OrderedJson jobs = jobs_of_server(facts);
  const OrderedJson out = {
      {"server", facts.where},  {"host", facts.host},           {"pid", facts.pid}, {"age_s", in_seconds(facts.age)},
      {"ending", facts.ending}, {"job_count", facts.job_count}, {"jobs", jobs}};
  return out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace dtrain::launcher
