#include "cli/commands/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/base/text.h"
#include "launcher/base/readable.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string word(const OrderedJson& from, const char* name) {
  const auto at = from.find(name);
  return at != from.end() && at->is_string() ? printable(at->get<std::string>(), 1000) : "";
}

int number(const OrderedJson& from, const char* name, int otherwise = 0) {
  const auto at = from.find(name);
  return at != from.end() && at->is_number_integer() ? at->get<int>() : otherwise;
}

std::string bytes(const OrderedJson& from, const char* name) {
  const auto at = from.find(name);
  return launcher::readable_bytes(at != from.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0);
}

const OrderedJson& list_in(const OrderedJson& from, const char* name) {
  static const OrderedJson none = OrderedJson::array();
  const auto at = from.find(name);
  return at != from.end() && at->is_array() ? *at : none;
}

std::string time_in(const OrderedJson& from, const char* name) {
  const auto at = from.find(name);
  const double seconds = at != from.end() && at->is_number() ? at->get<double>() : 0;
  const auto ms = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9) * 1000);
  return launcher::readable_duration(std::chrono::milliseconds(ms));
}

std::string restarts(const OrderedJson& answer) {
  const int most = number(answer, "max_restarts");
  return most == 0 ? "" : fmt::format(", {} of {} restarts used", number(answer, "restarts"), most);
}

std::string round_of(const OrderedJson& from) {
  const int round = number(from, "round", -1);
  return round < 0 ? "no round yet" : fmt::format("round {}", round);
}

std::string ranks(const OrderedJson& node) {
  const int first = number(node, "first_rank", -1), count = number(node, "workers");
  if (first < 0 || count < 1) return "";
  return count == 1 ? fmt::format(" (rank {})", first) : fmt::format(" (ranks {}-{})", first, first + count - 1);
}

std::string node_line(const OrderedJson& node, int own_agent, const std::string& own_host) {
  const int rank = number(node, "node_rank", -1);
  const bool own = number(node, "agent") == own_agent && word(node, "host") == own_host;
  return fmt::format("    {:<9} {:<16} agent {:<8} {}{}  {}{}\n", rank < 0 ? "no number" : fmt::format("node {}", rank),
                     word(node, "host"), number(node, "agent"), counted(number(node, "workers"), "worker"), ranks(node),
                     word(node, "state"), own ? ", this one" : "");
}

std::string decisions(const OrderedJson& from) {
  std::string out;
  for (const OrderedJson& d : list_in(from, "decisions"))
    out += fmt::format("    {:>12} ago  {}\n", time_in(d, "age_s"), word(d, "text"));
  return out;
}

std::string wanted_nodes(const OrderedJson& rounds) {
  const int least = number(rounds, "min_nodes"), most = number(rounds, "max_nodes");
  return least == most ? std::to_string(most) : fmt::format("{}:{}", least, most);
}

// What the host of the rounds knows.
std::string rounds_text(const OrderedJson& answer) {
  const auto at = answer.find("rounds");
  if (at == answer.end()) return "";
  const std::string where = number(answer, "hosts_rounds") != 0 || answer.value("hosts_rounds", OrderedJson()) == true
                                ? "this agent"
                                : word(answer, "endpoint");
  if (!at->is_object())
    return fmt::format("  rounds: no word from their host ({}){}{}\n", where,
                       word(answer, "waiting").empty() ? "" : "; waiting: ", word(answer, "waiting"));
  std::string out =
      fmt::format("  rounds: {}, {}, for {}; {} of {} nodes; hosted by {}\n", word(*at, "phase"), round_of(*at),
                  time_in(*at, "phase_s"), number(*at, "nodes_here"), wanted_nodes(*at), where);
  if (at->contains("left_s"))
    out += fmt::format("    waiting for nodes{}{}: {} left\n", word(*at, "missing").empty() ? "" : ", ",
                       word(*at, "missing"), time_in(*at, "left_s"));
  for (const OrderedJson& node : list_in(*at, "nodes"))
    out += node_line(node, number(answer, "agent"), word(answer, "host"));
  const int more = number(*at, "nodes_here") - static_cast<int>(list_in(*at, "nodes").size());
  if (more > 0) out += fmt::format("    and {} more\n", more);
  return out + "  decisions of the job:\n" + decisions(*at);
}

// Of the store that the workers meet at; an edge of another node's has no keys of its own.
std::string store_text(const OrderedJson& answer) {
  const auto at = answer.find("store");
  if (at == answer.end() || !at->is_object()) return "";
  const auto count = [&](const char* name) { return number(*at, name); };
  return fmt::format("  store: {}, {}; {}, {} waiting, {} refused{}\n", counted(count("keys"), "key"),
                     bytes(*at, "bytes"), counted(count("connections"), "connection"), count("waiting"),
                     count("refused"), count("links") > 0 ? fmt::format("; {}", counted(count("links"), "link")) : "");
}

std::string life(const OrderedJson& worker) {
  const int pid = number(worker, "pid");
  return pid == 0 ? word(worker, "state")
                  : fmt::format("pid {:<8} {}, {}", pid, word(worker, "state"), time_in(worker, "age_s"));
}

std::string workers_text(const OrderedJson& answer) {
  std::string out;
  for (const OrderedJson& w : list_in(answer, "workers"))
    out += fmt::format("    rank {:<4} local rank {:<4} {}\n", number(w, "rank"), number(w, "local_rank"), life(w));
  const int more = number(answer, "worker_count") - static_cast<int>(list_in(answer, "workers").size());
  if (more > 0) out += fmt::format("    and {} more\n", more);
  return out.empty() ? out : "  workers of this node:\n" + out;
}

std::string server_text(const OrderedJson& answer) {
  std::string out = fmt::format("rendezvous server at {}, pid {} on host {}, since {}: {}{}\n", word(answer, "server"),
                                number(answer, "pid"), word(answer, "host"), time_in(answer, "age_s"),
                                counted(number(answer, "job_count"), "job"),
                                answer.value("ending", OrderedJson()) == true ? ", takes no new ones" : "");
  for (const OrderedJson& job : list_in(answer, "jobs")) {
    const OrderedJson& rounds = job.is_object() && job.contains("rounds") ? job["rounds"] : job;
    out +=
        fmt::format("  job {}: {}, {}, for {}; {} of {} nodes\n", word(job, "job"), word(rounds, "phase"),
                    round_of(rounds), time_in(rounds, "phase_s"), number(rounds, "nodes_here"), wanted_nodes(rounds));
  }
  return out;
}

}  // namespace

bool is_of_server(const OrderedJson& answer) { return answer.contains("server"); }

int unlisted_jobs(const OrderedJson& answer) {
  if (!is_of_server(answer)) return 0;
  return std::max(0, number(answer, "job_count") - static_cast<int>(list_in(answer, "jobs").size()));
}

std::string status_text(const OrderedJson& answer) {
  if (is_of_server(answer)) return server_text(answer);
  const int rank = number(answer, "node_rank", -1);
  const std::string node =
      number(answer, "nodes", 1) > 1 && rank >= 0 ? fmt::format(", node {} of {}", rank, number(answer, "nodes")) : "";
  std::string out = fmt::format("job {}{}: {}, {}, for {}{}\n", word(answer, "job"), node, word(answer, "phase"),
                                round_of(answer), time_in(answer, "phase_s"), restarts(answer));
  out += fmt::format("  {}, agent {} on host {}, since {}{}\n", word(answer, "program"), number(answer, "agent"),
                     word(answer, "host"), time_in(answer, "age_s"),
                     number(answer, "memory_bytes") == 0 ? "" : ", memory " + bytes(answer, "memory_bytes"));
  out += rounds_text(answer) + store_text(answer) + workers_text(answer);
  const std::string own = decisions(answer);
  return own.empty() ? out : out + "  decisions of this agent:\n" + own;
}

}  // namespace dtrain::cli
