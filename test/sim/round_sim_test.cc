// RoundCore under thousands of seeded histories: agents that join, fail, leave, hang and die, over connections whose
// messages arrive in any order but each connection's own. After every step the invariants hold; every history ends.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>

#include "rendezvous/rounds/round_core.h"
#include "test/sim/neighbours.h"
#include "test/sim/seeds.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

using Cell = std::pair<RoundPhase, std::string>;

struct Agent {
  enum class State { outside, idle, running, stopping, gone } state = State::outside;
  MemberId id = 0;
  NodeInfo info;
  std::deque<RoundEvent> to_host;
  std::deque<RoundMessage> from_host;
  int round = -1;
  bool placed = false;
  bool hangs = false;
  bool leaving = false;
  bool reported_ok = false;
  std::optional<Verdict> verdict;
  bool alive() const { return state != State::outside && state != State::gone; }
  bool has_workers() const { return state == State::running || state == State::stopping; }
};

struct World {
  explicit World(uint64_t seed) : random(seed) {
    settings.job = "j";
    settings.fixed_ranks = pick(0, 2) == 0;
    settings.max_nodes = pick(1, 5);
    settings.min_nodes = settings.fixed_ranks ? settings.max_nodes : pick(1, settings.max_nodes);
    settings.max_restarts = pick(0, 3);
    settings.host_agent = "a0";
    agents.resize(size_t(settings.max_nodes + pick(0, 2)));
    for (size_t i = 0; i < agents.size(); ++i) describe_agent(i);
    core.emplace(settings);
    calm = pick(0, 3) == 0;
  }

  void describe_agent(size_t i) {
    NodeInfo& info = agents[i].info;
    info.job = "j";
    info.agent_id = "a" + std::to_string(i);
    info.host = pick(0, 1) == 0 ? "h" : "g";
    info.topology = pick(0, 1) == 0 ? "" : "rack";
    info.pid = int(i);
    info.role = pick(0, 2) == 0 ? "b" : "a";
    info.workers = pick(1, 4);
    info.min_nodes = settings.min_nodes;
    info.max_nodes = settings.max_nodes;
    info.max_restarts = settings.max_restarts;
    if (settings.fixed_ranks) info.wanted_rank = int(i);
    const int mistake = i == 0 ? 99 : pick(0, 60);
    if (mistake == 0) info.job = "other";
    if (mistake == 1) info.max_nodes += 1;
    if (mistake == 2) info.agent_id.clear();
  }

  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); }

  std::mt19937_64 random;
  RoundSettings settings;
  std::optional<RoundCore> core;
  std::vector<Agent> agents;
  MonoTime now{};
  MemberId last_id = 0;
  bool calm = false;     // nobody fails, leaves, hangs or dies
  bool patient = false;  // time does not pass while a node is about to join
  bool host_dead = false;
  int rounds = 0;
  std::vector<std::string> last_order;  // agent ids of the last round, by node rank
  std::set<Cell> seen;
  std::string trace;

  Agent* by_id(MemberId id) {
    for (Agent& a : agents)
      if (a.id == id) return &a;
    return nullptr;
  }

  // ---- the host's side

  void step(const RoundEvent& e, const std::string& what) {
    seen.insert({core->phase(), what});
    trace += fmt::format("{} <- {}\n", core->describe(), what);
    perform(core->step(e, now));
  }

  void perform(const std::vector<RoundAction>& actions) {
    std::vector<std::pair<Agent*, NodePlace>> opened;
    bool fresh = false;
    for (const auto& action : actions) {
      if (std::holds_alternative<round_action::FreshStore>(action)) {
        REQUIRE_FALSE(fresh);
        fresh = true;
        continue;
      }
      if (std::holds_alternative<round_action::Tell>(action)) continue;
      const auto& send = std::get<round_action::Send>(action);
      Agent* agent = by_id(send.member);
      if (const auto* open = std::get_if<msg::Open>(&send.message)) {
        REQUIRE(fresh);
        opened.emplace_back(agent, open->place);
      }
      REQUIRE(agent != nullptr);
      if (agent->alive()) agent->from_host.push_back(send.message);
    }
    REQUIRE(fresh == !opened.empty());
    if (fresh) check_round(opened);
    REQUIRE(core->restarts() <= settings.max_restarts);
    if (const auto at = core->deadline()) REQUIRE(*at > now - std::chrono::hours(1));
  }

  // The core may not have heard yet that one of them has died.
  void check_round(const std::vector<std::pair<Agent*, NodePlace>>& opened) {
    REQUIRE(int(opened.size()) >= settings.min_nodes);
    REQUIRE(int(opened.size()) <= settings.max_nodes);
    int base = 0;
    std::map<std::string, int> role_base;
    std::vector<std::string> order;
    std::vector<NodeSite> sites;
    for (size_t i = 0; i < opened.size(); ++i) {
      const auto& [agent, place] = opened[i];
      REQUIRE(place.round == rounds);
      REQUIRE(place.node_rank == int(i));
      if (settings.fixed_ranks) REQUIRE(agent->info.wanted_rank == int(i));
      REQUIRE(place.nodes == int(opened.size()));
      REQUIRE(place.base_rank == base);
      REQUIRE(place.base_role_rank == role_base[agent->info.role]);
      base += agent->info.workers;
      role_base[agent->info.role] += agent->info.workers;
      order.push_back(agent->info.agent_id);
      sites.push_back({agent->info.topology, agent->info.host});
    }
    if (!settings.fixed_ranks) REQUIRE(test::are_neighbours(sites));
    for (const auto& [agent, place] : opened) {
      REQUIRE(place.world_size == base);
      REQUIRE(place.role_world_size == role_base[agent->info.role]);
    }
    for (const Agent& a : agents) {
      // Nothing of the last round is left on a node that is connected and not given up.
      const bool given_up = std::any_of(a.from_host.begin(), a.from_host.end(),
                                        [](const RoundMessage& m) { return std::holds_alternative<msg::End>(m); });
      if (a.alive() && !given_up) REQUIRE_FALSE(a.has_workers());
    }
    check_order(order);
    last_order = order;
    ++rounds;
  }

  // Those who stay keep their order, and one of them is the first.
  void check_order(const std::vector<std::string>& order) const {
    std::vector<std::string> stayed_before, stayed_now;
    auto in = [](const auto& list, const std::string& id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    for (const auto& id : last_order)
      if (in(order, id)) stayed_before.push_back(id);
    for (const auto& id : order)
      if (in(last_order, id)) stayed_now.push_back(id);
    REQUIRE(stayed_before == stayed_now);
    if (!settings.fixed_ranks && !stayed_now.empty()) REQUIRE(order.front() == stayed_now.front());
  }

  // ---- the agents' side

  void say(Agent& a, RoundMessage message) { a.to_host.push_back(round_event::Said{a.id, std::move(message)}); }

  void depart(Agent& a) {
    a.state = Agent::State::gone;
    a.to_host.push_back(round_event::Gone{a.id});
    a.from_host.clear();
  }

  void join(Agent& a) {
    a.id = ++last_id;
    a.state = Agent::State::idle;
    say(a, msg::Join{a.info});
  }

  void receive(Agent& a) {
    const RoundMessage message = a.from_host.front();
    a.from_host.pop_front();
    if (const auto* open = std::get_if<msg::Open>(&message)) {
      REQUIRE(a.state == Agent::State::idle);
      a.round = open->place.round;
      a.placed = true;
      a.reported_ok = false;
      if (a.leaving) return say(a, msg::Over{a.round, false});
      a.state = Agent::State::running;
    } else if (const auto* stop = std::get_if<msg::Stop>(&message)) {
      REQUIRE(stop->round <= core->round());
      if (a.state == Agent::State::running && stop->round == a.round) a.state = Agent::State::stopping;
    } else if (const auto* end = std::get_if<msg::End>(&message)) {
      a.verdict = end->verdict;
      depart(a);
    } else if (std::holds_alternative<msg::Refused>(message)) {
      REQUIRE_FALSE(a.placed);
      depart(a);
    }
  }

  // What an agent does by itself.
  void act(Agent& a) {
    if (a.state == Agent::State::outside) return join(a);
    if (!a.alive()) return;
    const int what = pick(0, 99);
    if (!calm && what < 2) {
      if (&a == &agents[0]) host_dead = true;
      return depart(a);
    }
    if (!calm && what < 5 && !a.leaving) {
      a.leaving = true;
      if (!a.placed) {
        host_dead = host_dead || &a == &agents[0];
        return depart(a);
      }
      say(a, msg::Leaving{15});
      if (a.state == Agent::State::running) a.state = Agent::State::stopping;
      return;
    }
    if (!calm && what < 6) a.hangs = true;
    if (a.state == Agent::State::running && what < 40) {
      if (!calm && what < 14) {
        say(a, msg::Failed{a.round, 0, "it failed", 3, what == 13});
        a.state = Agent::State::stopping;
      } else {
        over(a, true);
      }
    } else if (a.state == Agent::State::stopping && !a.hangs && what < 70) {
      over(a, false);
    }
  }

  void over(Agent& a, bool ok) {
    a.state = Agent::State::idle;
    a.reported_ok = ok;
    say(a, msg::Over{a.round, ok});
  }

  void hear(Agent& a) {
    const RoundEvent e = a.to_host.front();
    a.to_host.pop_front();
    const auto* said = std::get_if<round_event::Said>(&e);
    step(e, said == nullptr ? "gone" : fmt::format("said {}", said->message.index()));
  }

  void move() {
    now += std::chrono::milliseconds(1);
    Agent& a = agents[size_t(pick(0, int(agents.size()) - 1))];
    const int what = pick(0, 9);
    if (what < 4 && !a.to_host.empty()) return hear(a);
    if (what < 8 && !a.from_host.empty()) return receive(a);
    if (what < 9) return act(a);
    if (core->deadline() && pick(0, 20) == 0 && !(patient && someone_is_coming())) {
      now = std::max(now, *core->deadline());
      step(round_event::Tick{}, "tick");
    }
  }

  bool someone_is_coming() const {
    return std::any_of(agents.begin(), agents.end(),
                       [](const Agent& a) { return a.state == Agent::State::outside || !a.to_host.empty(); });
  }

  bool over_for_all() const {
    return std::all_of(agents.begin(), agents.end(),
                       [](const Agent& a) { return a.state == Agent::State::gone && a.to_host.empty(); });
  }

  void run() {
    for (int i = 0; i < 30000 && !over_for_all() && !host_dead; ++i) {
      if (i == 4000) calm = true;  // from here on everything that hangs is found and the rest ends well
      move();
    }
  }

  void check_end() {
    if (host_dead) return;  // its connections tell the others
    REQUIRE(over_for_all());
    REQUIRE(core->phase() == RoundPhase::ended);
    for (const Agent& a : agents) {
      if (a.verdict && a.verdict->how == JobEnd::success) REQUIRE(a.verdict->exit_code == 0);
      if (a.verdict && a.verdict->how != JobEnd::success) REQUIRE(a.verdict->exit_code != 0);
      if (a.verdict) REQUIRE_FALSE(a.verdict->reason.empty());
      const bool succeeded = agents[0].verdict && agents[0].verdict->how == JobEnd::success;
      if (succeeded && a.verdict && a.placed && !a.leaving && a.round == rounds - 1 && !a.hangs) REQUIRE(a.reported_ok);
    }
  }
};

}  // namespace

TEST_CASE("seeded histories of a job's nodes keep the invariants and end") {
  const auto [from, seeds] = sim::seeds(5000);
  std::set<Cell> seen;
  int successes = 0;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    World w(seed);
    INFO("replay with DTRAIN_SIM_SEED=" << seed);
    INFO(w.settings.min_nodes << ":" << w.settings.max_nodes << " fixed " << w.settings.fixed_ranks);
    w.run();
    INFO(w.trace.substr(w.trace.size() > 3000 ? w.trace.size() - 3000 : 0));
    w.check_end();
    seen.insert(w.seen.begin(), w.seen.end());
    successes += w.agents[0].verdict && w.agents[0].verdict->how == JobEnd::success ? 1 : 0;
  }
  if (seeds < 1000) return;
  CHECK(successes > int(seeds) / 10);
  for (const auto phase : {RoundPhase::gathering, RoundPhase::running, RoundPhase::stopping, RoundPhase::ended}) {
    for (const char* what : {"said 0", "said 1", "said 2", "said 3", "gone", "tick"}) {
      const std::string event = what;
      if (phase == RoundPhase::running && event == "tick") continue;  // if too many came one by one
      // Before the first round nobody has workers; a job that has ended waits for no time.
      const bool impossible =
          (phase == RoundPhase::gathering && (event == "said 1" || event == "said 2" || event == "said 3")) ||
          (phase == RoundPhase::ended && event == "tick");
      INFO(to_string(phase) << " <- " << event);
      CHECK(seen.contains({phase, event}) == !impossible);
    }
  }
}

TEST_CASE("when everybody is well the job ends well") {
  for (uint64_t seed = 1; seed < 500; ++seed) {
    World w(seed);
    INFO("seed " << seed);
    w.calm = w.patient = true;
    for (Agent& a : w.agents) a.info.job = "j", a.info.max_nodes = w.settings.max_nodes;
    for (size_t i = 0; i < w.agents.size(); ++i) w.agents[i].info.agent_id = "a" + std::to_string(i);
    w.run();
    INFO(w.trace);
    w.check_end();
    REQUIRE(w.agents[0].verdict);
    CHECK(w.agents[0].verdict->how == JobEnd::success);
  }
}
