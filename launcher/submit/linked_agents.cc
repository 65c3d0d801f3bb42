#include "launcher/submit/linked_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "launcher/engines/placement.h"

namespace dtrain::launcher {
namespace {

constexpr std::chrono::milliseconds kOnItsWay{1000};

OuterListener::Options listening(const LinkedAgents::Options& options, OuterListener::Taker taker) {
  OuterListener::Options outer;
  outer.job = options.job;
  outer.credential = options.credential;
  outer.engine = std::move(taker);
  outer.log = options.log;
  return outer;
}

}  // namespace

LinkedAgents::LinkedAgents(boost::asio::io_context& io, Options options)
    : io_(io),
      most_(static_cast<std::size_t>(options.most)),
      log_(options.log),
      listener_(io, std::move(options.listener),
                listening(options, [this](LinkSocket socket, const std::string& received) {
                  adopt(std::move(socket), received);
                })) {}

LinkedAgents::~LinkedAgents() {
  for (const Agent& agent : agents_)
    if (agent.link) agent.link->close();
}

LinkedAgents::Agent& LinkedAgents::at(int agent) {
  const auto index = static_cast<std::size_t>(agent);
  if (index >= agents_.size()) agents_.resize(index + 1);
  return agents_[index];
}

Result<void> LinkedAgents::start(int agent) {
  at(agent).expected = true;
  if (at(agent).link) at(agent).link->go_on();
  if (at(agent).lost) lost(agent, std::string(*at(agent).lost));
  return {};
}

void LinkedAgents::adopt(LinkSocket socket, const std::string& received) {
  const std::uint64_t number = socket.tls->link().epoch;
  const int agent = static_cast<int>(number);
  if (number >= most_ || at(agent).link || at(agent).ended)
    return log_(fmt::format("turned away a connection: agent {} is not expected, or is there already", number));
  at(agent).link = std::make_shared<RelayLink>(io_, std::move(socket));
  at(agent).link->start({[this, agent](const RelayFrame& frame) { return heard(agent, frame); }, [] {},
                         [this, agent](const std::string& reason) {
                           if (!at(agent).ended && !reason.empty() && callbacks_.complained)
                             callbacks_.complained(agent, reason);
                           ended(agent, Placement::kLost);
                         }},
                        received);
  if (at(agent).expected) at(agent).link->go_on();
}

// False: no more for now.
bool LinkedAgents::heard(int agent, const RelayFrame& frame) {
  if (!callbacks_.data) return true;  // the job is over
  if (frame.what == RelayFrame::What::ended) {
    const auto status = relay_status(frame.bytes);
    ended(agent, status.value_or(Placement::kLost));
    return true;
  }
  if (frame.what != RelayFrame::What::out && frame.what != RelayFrame::What::err) return true;
  const int which = frame.what == RelayFrame::What::out ? 0 : 1;
  const bool goes_on = callbacks_.data(2 * agent + which, frame.bytes);
  at(agent).paused[which] = !goes_on;
  return goes_on;
}

void LinkedAgents::ended(int agent, int status) {
  if (std::exchange(at(agent).ended, true)) return;
  if (at(agent).link) at(agent).link->finish();
  if (!callbacks_.ended) return;
  for (const int which : {0, 1}) callbacks_.end(2 * agent + which);
  callbacks_.ended(agent, status);
}

void LinkedAgents::ended_after(std::chrono::milliseconds time, int agent, int status, const std::string& why) {
  auto& grace = at(agent).grace;
  grace = std::make_unique<boost::asio::steady_timer>(io_, time);
  grace->async_wait([this, time, agent, status, why](const boost::system::error_code& error) {
    if (error || at(agent).ended) return;
    // What it has said waits for a slow reader of ours.
    if (at(agent).link && at(agent).link->open() && (at(agent).paused[0] || at(agent).paused[1]))
      return ended_after(time, agent, status, why);
    if (!why.empty() && callbacks_.complained) callbacks_.complained(agent, why);
    ended(agent, status);
  });
}

void LinkedAgents::send(int agent, const std::string& line) {
  // Nobody is told anything before it has said who it is.
  if (at(agent).link) at(agent).link->send(RelayFrame::What::in, line + "\n");
}

void LinkedAgents::drop(int agent) {
  if (at(agent).link) at(agent).link->close();
  ended_after({}, agent, -SIGKILL, {});
}

void LinkedAgents::resume(int stream) {
  Agent& agent = at(stream / 2);
  agent.paused[stream % 2] = false;
  if (agent.link && !agent.paused[1 - stream % 2]) agent.link->go_on();
}

bool LinkedAgents::any_runs() const {
  return std::any_of(agents_.begin(), agents_.end(), [](const Agent& agent) { return agent.expected && !agent.ended; });
}

void LinkedAgents::lost(int agent, const std::string& why) {
  if (static_cast<std::size_t>(agent) >= most_) return;
  at(agent).lost = why;
  if (!at(agent).expected) return;
  // What it has said before that may be on its way.
  const bool comes = at(agent).link && at(agent).link->open();
  ended_after(comes ? kOnItsWay : std::chrono::milliseconds(0), agent, Placement::kLost, why);
}

}  // namespace dtrain::launcher
