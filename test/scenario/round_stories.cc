// Stories of jobs, as text files in test/scenario/rounds: what happens, and below it, indented, what RoundCore decides.
// The words are in docs/testing.md. DTRAIN_UPDATE_GOLDEN=1 writes what is decided now; read the diff.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "rendezvous/rounds/round_core.h"
#include "test/support/catch.h"
#include "test/support/golden.h"

using namespace dtrain;
using namespace std::chrono_literals;

namespace {

const std::filesystem::path kFolder = "test/scenario/rounds";

std::string ranks(int base, int count) {
  return count == 1 ? fmt::format("rank {}", base) : fmt::format("ranks {}-{}", base, base + count - 1);
}

class Story {
 public:
  explicit Story(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(" ")) continue;  // what was decided when the file was written
      if (line.empty() || line.starts_with("#")) {
        out_ += line + "\n";
      } else {
        happens(line);
      }
    }
  }
  const std::string& transcript() const { return out_; }

 private:
  using Words = std::smatch;

  void happens(const std::string& line) {
    Words w;
    if (std::regex_match(line, w, std::regex(R"(job of (\d+)(?::(\d+))? nodes(, numbered)?(?:, (\d+) restarts?)?)"))) {
      settings_.job = "job";
      settings_.fixed_ranks = w[3].matched;
      settings_.min_nodes = std::stoi(w[1]);
      settings_.max_nodes = w[2].matched ? std::stoi(w[2]) : settings_.min_nodes;
      settings_.max_restarts = w[4].matched ? std::stoi(w[4]) : 0;
      out_ += line + "\n";
      return;
    }
    if (!std::regex_match(line, w, std::regex(R"(([\d.]+) s\s+(.+))"))) throw std::runtime_error("no event: " + line);
    const MonoTime when{std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::stod(w[1])))};
    while (core_ && core_->deadline() && *core_->deadline() <= when) {
      now_ = *core_->deadline();
      const auto actions = core_->step(round_event::Tick{}, now_);
      if (actions.empty()) break;
      out_ += fmt::format("  {:g} s: the time is over\n", seconds());
      show(actions);
    }
    now_ = when;
    out_ += line + "\n";
    said_by_somebody(w[2]);
  }

  void said_by_somebody(const std::string& what) {
    Words w;
    auto is = [&](const char* pattern) { return std::regex_match(what, w, std::regex(pattern)); };
    if (is(R"((\w+) joins with (\d+) workers?(?:, as node (\d+))?(?: of job (\w+))?)"
           R"((?:, on host (\w+))?(?:, in (\w+))?)")) {
      say(w[1], msg::Join{node(w)});
    } else if (is(R"((\w+): local rank (\d+) ended with (\d+))")) {
      say(w[1], msg::Failed{core_->round(), std::stoi(w[2]),
                            fmt::format("local rank {} ended with {}", w.str(2), w.str(3)), std::stoi(w[3])});
    } else if (is(R"((\w+): nothing is left)")) {
      say(w[1], msg::Over{core_->round(), false});
    } else if (is(R"((\w+): all ended well)")) {
      say(w[1], msg::Over{core_->round(), true});
    } else if (is(R"((\w+) is stopped by its user)")) {
      say(w[1], msg::Leaving{SIGTERM});
    } else if (is(R"((\w+) is lost(?:, and fenced ([\d.]+) s later)?)")) {
      const auto later = w[2].matched ? std::chrono::duration<double>(std::stod(w[2])) : 0s;
      show(core_->step(round_event::Gone{id(w[1]), now_ + std::chrono::duration_cast<Duration>(later)}, now_));
    } else if (!is("(nothing happens)")) {
      throw std::runtime_error("not a word of these stories: " + what);
    }
  }

  NodeInfo node(const Words& w) {
    const std::string name = w[1];
    if (!core_) {
      settings_.host_agent = name;
      settings_.master_addr = name;
      core_.emplace(settings_);
    }
    ids_[name] = ++last_;
    NodeInfo info;
    info.job = w[4].matched ? w.str(4) : settings_.job;
    info.agent_id = name;
    info.host = w[5].matched ? w.str(5) : name;
    info.topology = w[6];
    info.pid = 100 + int(last_);
    info.role = "default";
    info.workers = std::stoi(w[2]);
    info.wanted_rank = w[3].matched ? std::stoi(w[3]) : -1;
    info.min_nodes = settings_.min_nodes;
    info.max_nodes = settings_.max_nodes;
    info.max_restarts = settings_.max_restarts;
    info.stop_ms = 38000;
    workers_[name] = info.workers;
    return info;
  }

  MemberId id(const std::string& name) const {
    const auto it = ids_.find(name);
    if (it == ids_.end()) throw std::runtime_error(name + " has not joined");
    return it->second;
  }
  std::string name(MemberId member) const {
    for (const auto& [name, id] : ids_)
      if (id == member) return name;
    return "?";
  }
  double seconds() const { return std::chrono::duration<double>(now_.time_since_epoch()).count(); }

  void say(const std::string& who, RoundMessage message) {
    const MemberId member = id(who);
    show(core_->step(round_event::Said{member, std::move(message)}, now_));
  }

  // The same words to several nodes are one line.
  void show(const std::vector<RoundAction>& actions) {
    std::vector<std::pair<std::string, std::vector<std::string>>> lines;
    for (const auto& action : actions) {
      const auto* send = std::get_if<round_action::Send>(&action);
      const auto* tell = std::get_if<round_action::Tell>(&action);
      const std::string text = send   ? words(name(send->member), send->message)
                               : tell ? "the host's user is told: " + tell->line
                                      : "a fresh store";
      auto it = std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.first == text; });
      if (it == lines.end()) it = lines.insert(lines.end(), {text, {}});
      if (send != nullptr) it->second.push_back(name(send->member));
    }
    for (const auto& [text, names] : lines)
      out_ += names.empty() ? fmt::format("        {}\n", text)
                            : fmt::format("        -> {}: {}\n", fmt::join(names, ", "), text);
    if (lines.empty()) out_ += fmt::format("        ({})\n", core_->describe());
  }

  std::string words(const std::string& to, const RoundMessage& message) const {
    if (const auto* m = std::get_if<msg::Refused>(&message)) return "refused: " + m->reason;
    if (const auto* m = std::get_if<msg::Waiting>(&message))
      return fmt::format("wait{}, {} here{}", m->spare ? " as a spare" : "", m->nodes,
                         m->left_ms < 0 ? "" : fmt::format(", {:g} s left", double(m->left_ms) / 1000));
    if (const auto* m = std::get_if<msg::Open>(&message))
      return fmt::format("round {}, restart {}: node {} of {}, {} of {}", m->place.round, m->place.restart_count,
                         m->place.node_rank, m->place.nodes, ranks(m->place.base_rank, workers_.at(to)),
                         m->place.world_size);
    if (const auto* m = std::get_if<msg::Stop>(&message)) return fmt::format("stop round {}: {}", m->round, m->reason);
    if (const auto* m = std::get_if<msg::End>(&message))
      return fmt::format("the end, exit code {}: {}", m->verdict.exit_code, m->verdict.reason);
    return "?";
  }

  RoundSettings settings_;
  std::optional<RoundCore> core_;
  MonoTime now_{};
  MemberId last_ = 0;
  std::map<std::string, MemberId> ids_;
  std::map<std::string, int> workers_;
  std::string out_;
};

}  // namespace

TEST_CASE("stories of a job's rounds") {
  const char* root = std::getenv("DTRAIN_SOURCE_DIR");
  int told = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(root ? root : ".") / kFolder)) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    INFO(entry.path().filename());
    test::check_file((kFolder / entry.path().filename()).string(), Story(text).transcript());
    ++told;
  }
  CHECK(told > 0);
}
