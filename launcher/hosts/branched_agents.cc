// Tested by test/unit/launcher/hosts/branched_agents_test.cc and test/process/ssh/tree_test.py.
#include "launcher/hosts/branched_agents.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "launcher/engine_wire/agent_wire.h"
#include "rendezvous/agent_link/relay_frames.h"

namespace dtrain::launcher {
namespace {

using What = BranchFrame::What;

constexpr std::size_t kLongestFirstLine = std::size_t{64} << 10;
// For the input of each agent, which reads at once what is for it.
constexpr std::size_t kMostForAgent = std::size_t{8} << 20;

std::vector<char> which_are_here(const std::vector<AgentCommand>& commands) {
  std::vector<char> here;
  here.reserve(commands.size());
  for (const AgentCommand& command : commands) here.push_back(command.dies_with_us ? 0 : 1);
  return here;
}

// For the first agent of a list: how it starts the others.
Result<std::string> plan_line(const AgentList& list, const std::vector<AgentCommand>& commands, int fanout) {
  BranchPlan plan{fanout, {}};
  for (std::size_t i = 1; i < list.size(); ++i)
    plan.commands.push_back(commands[static_cast<std::size_t>(list[i])].words);
  return branch_plan_line(plan);
}

}  // namespace

std::vector<BranchedAgents::Child> BranchedAgents::divided(const std::vector<AgentCommand>& commands, int fanout) {
  std::vector<Child> children;
  for (AgentList& list : divide_agents(which_are_here(commands), fanout)) {
    Child& made = children.emplace_back();
    if (list.size() > 1) {
      made.frames.emplace(BranchDecoder::From::branch, list.size());
      made.plan = plan_line(list, commands, fanout);
    }
    made.over.resize(list.size());
    made.dropped.resize(list.size());
    made.agents = std::move(list);
  }
  return children;
}

std::vector<AgentCommand> BranchedAgents::first_of_each(const std::vector<AgentCommand>& commands) const {
  std::vector<AgentCommand> firsts;
  firsts.reserve(children_.size());
  for (const Child& each : children_) firsts.push_back(commands[static_cast<std::size_t>(each.agents[0])]);
  return firsts;
}

BranchedAgents::BranchedAgents(boost::asio::io_context& io, const std::vector<AgentCommand>& commands, int fanout,
                               std::string version, rlimit descriptors)
    : io_(io),
      version_(std::move(version)),
      children_(divided(commands, fanout)),
      places_(commands.size()),
      commands_(io, first_of_each(commands), descriptors) {
  for (std::size_t number = 0; number < children_.size(); ++number)
    for (std::size_t i = 0; i < children_[number].agents.size(); ++i)
      places_[static_cast<std::size_t>(children_[number].agents[i])] = {static_cast<int>(number), static_cast<int>(i)};
  commands_.attach({[this](int stream, std::string_view bytes) { return heard(stream, bytes); },
                    [this](int stream) {
                      const Child& from = child(stream / 2);
                      if (!from.is_branch()) callbacks_.end(2 * from.agents[0] + stream % 2);
                    },
                    [this](int number, int status) { ended(number, status); },
                    {}});
}

Result<void> BranchedAgents::check_plans() const {
  for (const Child& each : children_)
    if (!each.plan) return each.plan.error();
  return {};
}

Result<void> BranchedAgents::start(int agent) {
  const auto [number, place_in_it] = place(agent);
  Child& its = child(number);
  if (!std::exchange(its.has_started, true)) its.started = start_child(number);
  if (!its.started) its.over[static_cast<std::size_t>(place_in_it)] = 1;
  return its.started;
}

Result<void> BranchedAgents::start_child(int number) {
  const Child& its = child(number);
  if (!its.plan) return its.plan.error();
  return commands_.start(number);
}

// ---- what it says ---------------------------------------------------------------------------------------------------

// Frames are only kept here: what they say may lead to more reading of the same pipe.
bool BranchedAgents::heard(int stream, std::string_view bytes) {
  const int number = stream / 2;
  Child& from = child(number);
  if (!from.is_branch() || stream % 2 == 1) return callbacks_.data(2 * from.agents[0] + stream % 2, bytes);
  if (!from.wrong.empty()) return true;
  if (from.speaks)
    from.frames->feed(bytes);
  else
    from.first += bytes;
  decode_soon(number);
  return false;
}

void BranchedAgents::decode_soon(int number) {
  if (std::exchange(child(number).is_awaited, true)) return;
  boost::asio::post(io_, [this, number, alive = std::weak_ptr(lives_)] {
    if (alive.expired()) return;
    child(number).is_awaited = false;
    decode(number, false);
  });
}

// `all`: paused or not.
void BranchedAgents::decode(int number, bool all) {
  Child& from = child(number);
  if (!from.is_branch() || std::exchange(from.decodes, true)) return;
  while (from.wrong.empty() && (all || from.paused.empty()))
    if (!(from.speaks ? hear_next(number, all) : hear_first(number, all))) break;
  from.decodes = false;
  if (from.wrong.empty() && from.paused.empty()) commands_.resume(2 * number);
}

// A line. False: there is none yet.
bool BranchedAgents::hear_first(int number, bool all) {
  Child& from = child(number);
  const auto end = from.first.find('\n');
  if (end == std::string::npos && from.first.size() <= kLongestFirstLine) return false;
  const std::string text = from.first.substr(0, end == std::string::npos ? end : end + 1);
  from.first.erase(0, text.size());
  const std::string_view line = std::string_view(text).substr(0, end);
  if (is_branch_ready(line)) {
    from.speaks = true;
    from.frames->feed(std::exchange(from.first, {}));
    push(number, std::exchange(from.early, {}));
    return true;
  }
  const auto card = parse_agent_card(line);
  if (card && card->version == version_) {
    // Only now, since a login file may read what is there. The agent shows the card again.
    if (!from.plan->empty()) commands_.send(number, std::exchange(*from.plan, {}));
    return true;
  }
  // The card of another version is told at once, and ends the job.
  pass(from, 2 * from.agents[0], text, all);
  return true;
}

bool BranchedAgents::hear_next(int number, bool all) {
  Child& from = child(number);
  const auto frame = from.frames->next();
  if (!frame) {
    give_up(number, frame.error().message);
    return false;
  }
  if (!*frame) return false;
  const BranchFrame& said = **frame;
  const auto at = static_cast<std::size_t>(said.agent);
  const int agent = from.agents[at];
  if (from.over[at] != 0) return true;
  if (said.what == What::ended)
    end(number, at, relay_status(said.bytes).value_or(kRelayLost));
  else if (said.what == What::complained)
    callbacks_.complained(agent, std::string(said.bytes));
  else
    pass(from, 2 * agent + (said.what == What::out ? 0 : 1), said.bytes, all);
  return true;
}

void BranchedAgents::pass(Child& from, int stream, std::string_view bytes, bool all) {
  if (!callbacks_.data(stream, bytes) && !all) from.paused.insert(stream);
}

// `why` is told once its command has ended.
void BranchedAgents::give_up(int number, const std::string& why) {
  child(number).wrong = why;
  commands_.drop(number);
}

void BranchedAgents::end(int number, std::size_t at, int status) {
  Child& from = child(number);
  from.over[at] = 1;
  const bool is_last = std::find(from.over.begin(), from.over.end(), 0) == from.over.end();
  if (is_last) commands_.close_input(number);
  const int agent = from.agents[at];
  for (const int which : {0, 1}) callbacks_.end(2 * agent + which);
  callbacks_.ended(agent, status);
}

// A command. Those whose end a branch has not told are lost with it.
void BranchedAgents::ended(int number, int status) {
  Child& from = child(number);
  if (from.is_branch()) {
    commands_.drain(number);
    decode(number, true);
  }
  const auto first = std::find(from.over.begin(), from.over.end(), 0);
  if (!from.wrong.empty() && first != from.over.end())
    callbacks_.complained(from.agents[static_cast<std::size_t>(first - from.over.begin())], from.wrong);
  if (!from.is_branch()) return callbacks_.ended(from.agents[0], from.wrong.empty() ? status : kRelayLost);
  for (std::size_t at = 0; at < from.over.size(); ++at)
    if (from.over[at] == 0) end(number, at, at == 0 && from.wrong.empty() && status != 0 ? status : kRelayLost);
}

// ---- what it is told ------------------------------------------------------------------------------------------------

void BranchedAgents::send_bytes(int agent, std::string_view bytes) {
  const auto [number, at] = place(agent);
  if (child(number).is_branch())
    tell(number, branch_frames(What::in, at, bytes));
  else
    push(number, bytes);
}

void BranchedAgents::serve(int agent, const ShipPiece& piece, const std::string& bytes) {
  const auto [number, at] = place(agent);
  Child& its = child(number);
  if (!its.is_branch()) return AgentEnds::serve(agent, piece, bytes);
  if (its.sent.find(piece) != nullptr) return tell(number, branch_frames(What::again, at, ship_piece_line(piece)));
  its.sent.add(piece);
  tell(number, branch_frames(What::piece, at, branch_piece(piece, bytes)));
}

void BranchedAgents::drop(int agent) {
  const auto [number, at] = place(agent);
  Child& its = child(number);
  its.dropped[static_cast<std::size_t>(at)] = 1;
  for (std::size_t i = 0; i < its.over.size(); ++i)
    if (its.over[i] == 0 && its.dropped[i] == 0) return tell(number, branch_frames(What::drop, at));
  commands_.drop(number);
}

void BranchedAgents::tell(int number, std::string_view frames) {
  if (child(number).speaks) return push(number, frames);
  child(number).early += frames;
}

void BranchedAgents::push(int number, std::string_view bytes) {
  commands_.write(number, bytes);
  if (commands_.unsent(number) > kMostForAgent * child(number).agents.size())
    give_up(number, "it does not read what is for it");
}

void BranchedAgents::resume(int stream) {
  const auto [number, at] = place(stream / 2);
  Child& its = child(number);
  if (!its.is_branch()) return commands_.resume(2 * number + stream % 2);
  if (at == 0 && stream % 2 == 1) commands_.resume(2 * number + 1);
  its.paused.erase(stream);
  if (its.paused.empty()) decode_soon(number);
}

void BranchedAgents::drain(int agent) {
  const int number = place(agent).child;
  if (!child(number).is_branch()) commands_.drain(number);
}

void BranchedAgents::drain_all() {
  commands_.drain_all();
  for (std::size_t number = 0; number < children_.size(); ++number) decode(static_cast<int>(number), true);
}

}  // namespace dtrain::launcher
