#include "launcher/engines/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/engines/meeting_place.h"
#include "rendezvous/base/printable.h"

namespace dtrain::launcher {
namespace {

constexpr int kNotFound = 127;
constexpr std::size_t kLongestComplaint = 400, kMostComplaints = 50;

std::string joined_slots(const std::vector<int>& slots) {
  std::string text;
  for (const int slot : slots) text += fmt::format("{}{}", text.empty() ? "" : ",", slot);
  return text;
}

}  // namespace

bool is_here(const PlacementRequest& request, std::size_t host) {
  return std::find(request.here.begin(), request.here.end(), request.hosts[host].name) != request.here.end();
}

Placement::Placement(PlacementRequest request, MonoTime now)
    : request_(std::move(request)), agents_(request_.hosts.size()) {
  start_more(now);
}

std::size_t Placement::count(Agent::State state) const {
  return static_cast<std::size_t>(std::count_if(
      agents_.begin(), agents_.end(), [&](const Agent& agent) { return !agent.is_late && agent.state == state; }));
}

// One that is late, and in time for that.
bool Placement::answers(const Agent& agent) {
  return agent.is_late && !agent.is_member &&
         (agent.state == Agent::State::awaited || (agent.state == Agent::State::present && agent.is_told));
}

bool Placement::is_before_first_card() const { return stage_ == Stage::meeting && count(Agent::State::present) == 0; }

std::optional<MonoTime> Placement::deadline() const {
  if (stage_ == Stage::over) return std::nullopt;
  const bool is_patient = stage_ == Stage::running || (request_.begins_late && is_before_first_card());
  auto first = is_patient ? std::nullopt : std::optional(deadline_);
  for (const Agent& agent : agents_)
    if (answers(agent)) first = std::min(first.value_or(agent.due), agent.due);
  return first;
}

void Placement::joined(PlacedHost host, MonoTime now) {
  request_.hosts.push_back(std::move(host));
  Agent& agent = agents_.emplace_back();
  agent.is_late = true;
  agent.due = now + kPatience;
  const bool is_wanted = request_.grows && stage_ != Stage::over && !stopped_;
  agent.state = is_wanted ? Agent::State::awaited : Agent::State::gone;
  if (is_wanted) orders_.push_back({Order::What::start, int(agents_.size() - 1), {}});
}

void Placement::said(int host, std::string_view line, MonoTime now) {
  if (!is_of_agent(line)) return complained(host, line);
  if (stage_ == Stage::over) return;
  const auto at = static_cast<std::size_t>(host);
  const Agent& agent = agents_[at];
  if ((stage_ == Stage::meeting || agent.is_late) && agent.state == Agent::State::awaited)
    card_of(at, line, now);
  else if (agent.state == Agent::State::present &&
           (agent.is_late ? agent.is_told : agent.is_member && stage_ == Stage::judging))
    verdict_of(at, line, now);
}

void Placement::complained(int host, std::string_view line) {
  const auto first = line.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return;
  auto& complaints = agents_[static_cast<std::size_t>(host)].complaints;
  if (complaints.size() == kMostComplaints) complaints.erase(complaints.begin());
  const auto last = line.find_last_not_of(" \t\r");
  complaints.push_back(printable(line.substr(first, std::min(last + 1 - first, kLongestComplaint))));
}

std::string Placement::last_words(std::size_t host) const {
  const auto& complaints = agents_[host].complaints;
  return complaints.empty() ? "" : complaints.back();
}

// The patience is with each of them, and so begins again with the last.
void Placement::start_more(MonoTime now) {
  for (std::size_t i = 0; i < agents_.size() && count(Agent::State::awaited) < most_at_once(); ++i) {
    if (agents_[i].state != Agent::State::waiting) continue;
    agents_[i].state = Agent::State::awaited;
    orders_.push_back({Order::What::start, int(i), {}});
    deadline_ = now + kPatience;
  }
}

void Placement::card_of(std::size_t host, std::string_view line, MonoTime now) {
  const bool is_late = agents_[host].is_late;
  auto card = parse_agent_card(line);
  if (!card) return is_late ? turn_away(host, card.error().message) : fail(card.error().in(name(host)));
  if (card->version != request_.version) {
    const std::string why = fmt::format("has {}, and this is {}: install the same version on all hosts",
                                        printable(card->version), request_.version);
    return is_late ? turn_away(host, "it " + why) : fail({ErrorKind::usage, name(host) + " " + why});
  }
  if (request_.named_by_cards && !card->host.empty())
    request_.hosts[host].name = fmt::format("{} ({})", printable(card->host), name(host));
  if (request_.begins_late && is_before_first_card()) deadline_ = now + kPatience;
  agents_[host].card = std::move(*card);
  agents_[host].state = Agent::State::present;
  if (!is_late) return meet(now);
  if (stage_ == Stage::running) give_late_task(host, now);
}

void Placement::verdict_of(std::size_t host, std::string_view line, MonoTime now) {
  const auto ask = parse_ship_ask(line, request_.task.ship);
  if (!ask) return refuse(host, ask.error());
  if (*ask) return serve(host, **ask, now);
  auto verdict = parse_agent_verdict(line);
  if (request_.only_looks) return conclude_look(host, verdict);
  const bool is_late = agents_[host].is_late;
  if (!verdict) return is_late ? turn_away(host, verdict.error().message) : fail(verdict.error().in(name(host)));
  agents_[host].state = Agent::State::ready;
  if (is_late) {
    agents_[host].is_member = true;
    return send(host, std::string(kAgentGo));
  }
  for (const Agent& agent : agents_)
    if (agent.is_member && agent.state != Agent::State::ready) return;
  begin();
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (agents_[i].is_late && agents_[i].state == Agent::State::present) give_late_task(i, now);
}

// All answers count: whoever asks can then mend all hosts at once. An agent that gives none has said no.
void Placement::conclude_look(std::size_t host, const Result<void>& verdict) {
  if (agents_[host].state == Agent::State::present) agents_[host].state = Agent::State::ready;
  if (!verdict) {
    Error why = verdict.error();
    why = why.in(name(host));
    if (unseen_)
      notes_.push_back(why.message);
    else
      unseen_ = std::move(why);
  }
  for (const Agent& agent : agents_)
    if (agent.is_member && agent.state == Agent::State::present) return;
  end_placement(unseen_ ? Result<int>(std::move(*unseen_)) : Result<int>(0));
}

// In the order of the list, and so each piece once. The patience is with an agent that asks no more.
void Placement::serve(std::size_t host, const ShipPiece& piece, MonoTime now) {
  auto& last = agents_[host].asked;
  if (last && std::pair(piece.file, piece.from) <= std::pair(last->file, last->from))
    return refuse(host, {ErrorKind::system, "it asks for a piece of a file again"});
  last = piece;
  (agents_[host].is_late ? agents_[host].due : deadline_) = now + kPatience;
  orders_.push_back({Order::What::serve, int(host), {}, piece});
}

void Placement::cannot_serve(int host, const Error& why) {
  const auto at = static_cast<std::size_t>(host);
  if (agents_[at].is_late) return turn_away(at, why.message);
  if (stage_ == Stage::judging) fail(why.in("for " + name(at)));
}

// Who has got files, for the user; empty: nobody.
std::string Placement::shipped() const {
  std::string first;
  std::size_t count = 0;
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (agents_[i].asked && count++ == 0) first = name(i);
  if (count == 0) return {};
  const std::string others = count == 1 ? "" : fmt::format(" and {} more", count - 1);
  return fmt::format(
      "{}{} got files of the job, and works in a folder that is removed with all in it at the job's "
      "end: write results to an absolute path",
      first, others);
}

void Placement::begin() {
  stage_ = Stage::running;
  has_begun_ = true;
  if (auto note = shipped(); !note.empty()) notes_.push_back(std::move(note));
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (agents_[i].is_member) send(i, std::string(kAgentGo));
}

void Placement::ended(int host, int status, MonoTime now) {
  const auto at = static_cast<std::size_t>(host);
  Agent& agent = agents_[at];
  if (agent.state == Agent::State::gone) return;
  // ssh that is killed is a connection that is lost.
  const bool by_ssh = request_.task.place.engine == kSsh && !is_here(request_, at);
  agent.code = status >= 0 ? status : by_ssh ? kNoConnection : 128 - status;
  const bool no_connection = by_ssh && agent.code == kNoConnection;
  agent.takes_others = status == kLost || no_connection;
  agent.is_lost = agent.takes_others || status == kDied;
  const std::string said = last_words(at);
  const std::string why = !said.empty()     ? said
                          : status == kLost ? "its agent is lost"
                                            : fmt::format("its command ended with {}", agent.code);
  if (agent.is_late && !agent.is_member && stage_ != Stage::over) return turn_away(at, why);
  if (stage_ == Stage::meeting) {
    constexpr const char* kAdvice = ": dtrain must be installed there, in PATH or where it is here";
    has_no_agent(at, agent.code == kNotFound ? why + kAdvice : no_connection ? with_advice(why, at) : why);
    if (stage_ == Stage::meeting) meet(now);
    return;
  }
  const bool has_answered = agent.state == Agent::State::ready;
  agent.state = Agent::State::gone;
  if (!agent.is_member || stage_ == Stage::over) return;
  if (request_.only_looks) {
    if (!has_answered) conclude_look(at, Error{ErrorKind::system, why});
    return;
  }
  if (stage_ == Stage::judging) return fail({ErrorKind::system, fmt::format("{}: {}", name(at), why)});
  bool is_last = true, is_first = true;
  for (const Agent& each : agents_) {
    if (!each.is_member || &each == &agent) continue;
    (each.state == Agent::State::gone ? is_first : is_last) = false;
  }
  if (agent.is_lost) {
    // A job may have that code too; then the others do.
    lost_first_ = lost_first_ || (is_first && !is_last);
    if (!is_last || !by_ssh)
      if (auto note = loss_of(at, status); !note.empty()) notes_.push_back(std::move(note));
  }
  // An agent that is killed has left its place too.
  if (!is_last && (agent.is_lost || status < 0) && request_.grows && !stopped_)
    orders_.push_back({Order::What::vacate, host, {}});
  if (!is_last) return;
  drop_late();
  stage_ = Stage::over;
  end_ = exit_code();
}

void Placement::signal(int number, bool stops) {
  stopped_ = stopped_ || stops;
  if (stage_ == Stage::running) {
    for (std::size_t i = 0; i < agents_.size(); ++i)
      if (agents_[i].is_member && agents_[i].state != Agent::State::gone) send(i, std::to_string(number));
    if (stops) drop_late();
    return;
  }
  if (!stops || stage_ == Stage::over) return;
  fail({ErrorKind::system, "interrupted"});
  end_ = 128 + number;
}

void Placement::look_at(MonoTime now) {
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (!answers(agents_[i]) || now < agents_[i].due) continue;
    orders_.push_back({Order::What::drop, int(i), {}});
    turn_away(i, fmt::format("no answer within {:g} s", in_seconds(kPatience)));
  }
  const bool meets = stage_ == Stage::meeting;
  if (!(meets || stage_ == Stage::judging) || now < deadline_ || (request_.begins_late && is_before_first_card()))
    return;
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    const Agent& agent = agents_[i];
    if (agent.is_late || agent.state != (meets ? Agent::State::awaited : Agent::State::present) ||
        (!meets && !agent.is_member))
      continue;
    const bool room = !(meets && request_.named_by_cards);
    const std::string why = fmt::format("{} within {:g} s{}", room ? "no answer" : "the engine has not started it",
                                        in_seconds(kPatience), agent.complaints.empty() ? "" : "; " + last_words(i));
    if (!meets && request_.only_looks) {
      conclude_look(i, Error{ErrorKind::system, why});
      continue;
    }
    if (!meets) return fail({ErrorKind::system, fmt::format("{}: {}", name(i), why)});
    orders_.push_back({Order::What::drop, int(i), {}});
    has_no_agent(i, with_advice(why, i), room ? ErrorKind::system : ErrorKind::unavailable);
    if (stage_ == Stage::over) return;
  }
  if (meets) meet(now);
}

// Nothing has been started: what is there is dropped.
void Placement::end_placement(Result<int> end) {
  stage_ = Stage::over;
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (agents_[i].state != Agent::State::gone && agents_[i].state != Agent::State::waiting)
      orders_.push_back({Order::What::drop, int(i), {}});
  end_ = std::move(end);
}

void Placement::has_no_agent(std::size_t host, const std::string& why, ErrorKind kind) {
  agents_[host].state = Agent::State::gone;
  const std::string text = fmt::format("{}: {}", name(host), why);
  const auto left = std::count_if(agents_.begin(), agents_.end(), [](const Agent& agent) {
    return !agent.is_late && agent.state != Agent::State::gone;
  });
  if (left < request_.least) return fail({kind, text});
  notes_.push_back(text + "; the job begins without it");
  if (request_.grows) orders_.push_back({Order::What::vacate, int(host), {}});
}

// The job does not depend on an agent that is late.
void Placement::refuse(std::size_t host, const Error& why) {
  if (agents_[host].is_late) return turn_away(host, why.message);
  fail(why.in(name(host)));
}

void Placement::turn_away(std::size_t host, const std::string& why) {
  agents_[host].state = Agent::State::gone;
  notes_.push_back(fmt::format("{}: {}; the job goes on without it", name(host), why));
  orders_.push_back({Order::What::drop, int(host), {}});
  orders_.push_back({Order::What::vacate, int(host), {}});
}

// Of a job that comes to its end.
void Placement::drop_late() {
  for (std::size_t i = 0; i < agents_.size(); ++i) {
    if (!agents_[i].is_late || agents_[i].is_member || agents_[i].state == Agent::State::gone) continue;
    agents_[i].state = Agent::State::gone;
    orders_.push_back({Order::What::drop, int(i), {}});
  }
}

// Once every host has an agent, or has none.
void Placement::meet(MonoTime now) {
  start_more(now);
  if (count(Agent::State::awaited) == 0) assign(now);
}

void Placement::assign(MonoTime now) {
  stage_ = Stage::judging;
  deadline_ = now + kPatience;
  std::vector<std::size_t> members;
  for (std::size_t i = 0; i < agents_.size(); ++i)
    if (!agents_[i].is_late && agents_[i].state == Agent::State::present) members.push_back(i);
  for (const std::size_t at : members) {
    agents_[at].is_member = true;
    if (auto done = give_task(at, members); !done) return fail(done.error());
  }
  if (!request_.grows) request_.task.env = {};  // the token has been told
}

void Placement::give_late_task(std::size_t host, MonoTime now) {
  agents_[host].is_told = true;
  agents_[host].due = now + kPatience;
  if (auto done = give_task(host, {}); !done) turn_away(host, done.error().message);
}

// `members`: those that were placed first; a host that is late is none of them.
Result<void> Placement::give_task(std::size_t at, const std::vector<std::size_t>& members) {
  const bool several = members.size() > 1 || request_.rounds_at;
  const PlacedHost& host = request_.hosts[at];
  AgentTask task = request_.task;
  if (task.place.nnodes.empty()) task.place.nnodes = std::to_string(members.size());
  if (request_.numbered && several)
    task.place.node_rank = std::to_string(std::find(members.begin(), members.end(), at) - members.begin());
  if (!request_.meets_elsewhere && !request_.only_looks && several) {  // who only looks meets nobody
    task.place.endpoint = endpoint(at, members);
    if (task.place.endpoint.empty()) return no_way(members, at);
  }
  if (task.place.nproc.empty() && host.slots > 0) task.place.nproc = std::to_string(host.workers());
  if (!host.chosen.empty()) task.env["CUDA_VISIBLE_DEVICES"] = joined_slots(host.chosen);
  auto line = task_line(task);
  if (!line) return line.error();
  send(at, std::move(*line));
  return {};
}

Error Placement::no_way(const std::vector<std::size_t>& members, std::size_t host) const {
  if (request_.rounds_at)
    return {ErrorKind::usage, name(host) + " cannot reach the host of this command, which has no other address"};
  const std::size_t first = members[0];
  const AgentCard &one = agents_[first].card, &other = agents_[host].card;
  if (first != host && one.host == other.host && one.addresses == other.addresses)
    return {ErrorKind::usage,
            fmt::format("{} and {} are the same host: name it once, with more slots", name(first), name(host))};
  return {ErrorKind::usage, fmt::format("{} has no address that other hosts could reach: say where the nodes meet with "
                                        "--rdzv-endpoint",
                                        name(first))};
}

std::string Placement::endpoint(std::size_t host, const std::vector<std::size_t>& members) const {
  const std::string port =
      request_.port.empty() ? std::to_string(port_of_job(request_.task.place.run_id)) : request_.port;
  const AgentCard& one = request_.rounds_at ? *request_.rounds_at : agents_[members[0]].card;
  const AgentCard& other = agents_[host].card;
  const bool is_there = !request_.rounds_at && host == members[0];
  const bool on_one_host = request_.shares_hosts && one.host == other.host && one.addresses == other.addresses;
  if (on_one_host && one.addresses.empty()) return endpoint_of_node_0({"127.0.0.1"}, port);
  return is_there || on_one_host ? endpoint_of_node_0(one.addresses, port)
                                 : endpoint_seen_from(other.addresses, one.addresses, port);
}

}  // namespace dtrain::launcher
