#include "launcher/finding/succession_finder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "rendezvous/net/deadline.h"
#include "rendezvous/net/listen.h"

namespace dtrain::launcher {

namespace act = succession_action;
namespace ev = succession_event;
namespace asio = boost::asio;

namespace {

UniqueFd another_descriptor(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)); }

}  // namespace

// Where all nodes are needed, the loss of one ends the job. Of two nodes, one cannot know what the other does: it says
// so when the host is lost.
bool SuccessionFinder::wanted(const NodesSpec& nodes) {
  return nodes.succession && nodes.across_hosts && nodes.node_rank < 0 && !nodes.etcd && nodes.rejoin &&
         !nodes.munge_socket && nodes.min < nodes.max;
}

SuccessionFinder::SuccessionFinder(asio::io_context& io, const JobSpec& spec, const std::string& agent_id,
                                   Answers answers, Callbacks callbacks, const Say& say)
    : io_(io),
      spec_(spec),
      answers_(std::move(answers)),
      callbacks_(std::move(callbacks)),
      say_(say),
      self_(voter_id(agent_id)),
      endpoint_(spec, endpoint_answers(), say),
      core_({spec.nodes.pulse, self_}),
      timer_(io) {}

HostFinder::Answers SuccessionFinder::endpoint_answers() {
  Answers answers = answers_;
  answers.here = [this](Here here) { first_host(std::move(here)); };
  return answers;
}

void SuccessionFinder::find() {
  if (core_.phase() != SuccessionCore::Phase::seeking) return endpoint_.find();
  if (nobody_left()) {
    const Error gone{ErrorKind::system, "all nodes that could host it next are gone"};
    return answers_.failed(gone);
  }
  feed(ev::Find{});
}

// All agents that could be chosen have ended. If this one can be chosen, nobody is left to choose it.
bool SuccessionFinder::nobody_left() const {
  const bool others = core_.may_stand() && core_.voters() > kMostCandidates;
  return !others && !links_.empty() &&
         std::all_of(links_.begin(), links_.end(), [](const auto& link) { return link.second->refused(); });
}

void SuccessionFinder::hear(const HostNews& news) {
  if (const auto* joined = std::get_if<host_news::Joined>(&news)) return feed(ev::Following{joined->host});
  if (const auto* opened = std::get_if<host_news::Opened>(&news))
    return feed(ev::Opened{opened->open.term, opened->open.place.round, opened->open.electorate});
  if (const auto* settled = std::get_if<host_news::Settled>(&news)) return feed(ev::Settled{settled->round});
  if (const auto* lost = std::get_if<host_news::Lost>(&news)) return feed(ev::Lost{lost->term, lost->stamped});
  feed(ev::Leaves{});
}

void SuccessionFinder::complete(const std::string& own_address, NodeInfo& node) {
  if (!own_address.empty()) listen(own_address);
  node.address = address_;
  node.port = port_;
}

void SuccessionFinder::close(bool /*as_killed*/) {
  lives_.reset();
  timer_.cancel();
  links_.clear();
  by_voter_.clear();
  outer_.reset();
  desk_.reset();
  listener_ = {};
}

// ---- what the core says ---------------------------------------------------------------------------------------------

void SuccessionFinder::feed(const SuccessionEvent& event) {
  const std::weak_ptr<bool> alive = lives_;
  for (const auto& action : core_.step(event, SteadyClock::now()))
    if (!alive.expired()) perform(action);
  if (!alive.expired()) arm();
}

// For events of a connection, since what follows from the event may end that connection.
void SuccessionFinder::feed_soon(const SuccessionEvent& event) {
  asio::post(io_, [this, alive = std::weak_ptr(lives_), event] {
    if (!alive.expired()) feed(event);
  });
}

void SuccessionFinder::arm() {
  call_at(timer_, core_.deadline(), [this] { feed(ev::Tick{}); });
}

void SuccessionFinder::perform(const SuccessionAction& action) {
  if (const auto* a = std::get_if<act::There>(&action)) return answers_.there(a->host);
  if (const auto* a = std::get_if<act::Here>(&action)) return here(*a);
  if (const auto* a = std::get_if<act::Nobody>(&action)) return answers_.nobody(a->why);
  if (std::holds_alternative<act::Withdraw>(action)) return callbacks_.withdraw();
  if (const auto* a = std::get_if<act::Seek>(&action)) return seek(a->candidates);
  if (std::holds_alternative<act::StopSeeking>(action)) {
    by_voter_.clear();
    return links_.clear();
  }
  if (const auto* a = std::get_if<act::Propose>(&action)) {
    if (desk_) desk_->send(a->to, a->ballot);
    return;
  }
  if (const auto* a = std::get_if<act::Answer>(&action)) {
    if (const auto to = by_voter_.find(a->candidate); to != by_voter_.end()) to->second->send(a->vote);
    return;
  }
  if (std::holds_alternative<act::Open>(action)) {
    if (const auto go = std::exchange(go_, nullptr)) go();
    return;
  }
  if (std::holds_alternative<act::Doubt>(action))
    return say_("too few nodes answer; without them, this node can host the job only as long as they wait");
  if (std::holds_alternative<act::Sure>(action)) return say_("enough nodes answer again");
  if (const auto* a = std::get_if<act::Deposed>(&action)) {
    go_ = nullptr;
    serve_seekers();
    callbacks_.deposed(a->why);
  }
}

void SuccessionFinder::seek(const std::vector<Candidate>& candidates) {
  serve_seekers();
  for (const Candidate& candidate : candidates) {
    auto& link = links_[{candidate.address, candidate.port}];
    if (link) {
      link->seek_again();
      continue;
    }
    SeekLink::Options options;
    options.address = candidate.address;
    options.port = std::uint16_t(candidate.port);
    options.job = spec_.run_id;
    options.credential = spec_.nodes.credential;
    options.seek = [this] { return core_.seek(); };
    options.message = [this, voter = candidate.voter](const RoundMessage& message) {
      if (const auto* ballot = std::get_if<msg::Ballot>(&message)) feed_soon(ev::Asked{voter, *ballot});
      if (const auto* at = std::get_if<msg::HostAt>(&message))
        feed_soon(ev::Found{{at->addresses, at->port, at->term}, at->settled});
    };
    link = std::make_unique<SeekLink>(io_, std::move(options));
    if (candidate.voter != 0) by_voter_[candidate.voter] = link.get();
  }
}

// ---- where it listens -----------------------------------------------------------------------------------------------

// Takes the endpoint's port if it is free: firewalls that let it through for one host may let it through for all.
void SuccessionFinder::listen(const std::string& address) {
  if (listener_) return;
  auto listener = try_listen_at(address, spec_.nodes.port);
  if (!listener) listener = try_listen_at(address, 0);
  if (!listener) return;  // this node is no candidate
  const auto port = port_of_socket(listener->get());
  if (!port) return;
  listener_ = std::move(*listener);
  address_ = address;
  port_ = *port;
  serve_seekers();
}

void SuccessionFinder::serve_seekers() {
  if (outer_ || !listener_) return;
  desk_ = std::make_unique<SeekDesk>(io_, SeekDesk::Callbacks{[this](const msg::Seek& seek, bool here) {
                                                                feed_soon(ev::Seeker{seek, here});
                                                              },
                                                              [this](VoterId voter, const msg::Vote& vote) {
                                                                feed_soon(ev::Voted{voter, vote});
                                                              },
                                                              [this] { return host_at(); }});
  OuterListener::Options options;
  options.job = spec_.run_id;
  options.credential = spec_.nodes.credential;
  options.agent = [this](LinkSocket socket, const std::string& bytes) { desk_->adopt(std::move(socket), bytes); };
  options.store = [](LinkSocket, const std::string&) {};  // of a round that is over
  outer_ = std::make_unique<OuterListener>(io_, another_descriptor(listener_), std::move(options));
}

std::optional<msg::HostAt> SuccessionFinder::host_at() const {
  auto at = core_.host_at();
  if (at && core_.phase() == SuccessionCore::Phase::leading) {
    at->addresses = {address_};
    at->port = port_;
  }
  return at;
}

// ---- the host -------------------------------------------------------------------------------------------------------

void SuccessionFinder::first_host(Here here) {
  feed(ev::Hosts{});
  listener_ = another_descriptor(here.listener);
  if (const auto port = port_of_socket(here.listener.get())) port_ = *port;
  address_ = spec_.nodes.address;
  if (address_ == "::") port_ = 0;  // no address that leads here from everywhere
  succeed(here);
  answers_.here(std::move(here));
}

void SuccessionFinder::here(const act::Here& chosen) {
  desk_->send(0, *host_at());
  // The seekers are told before their connections end.
  outer_.reset();
  desk_.reset();
  if (!spec_.quiet)
    say_(fmt::format("the other nodes have chosen this one: it hosts the job, at {}", address_text(address_, port_)));
  Here here{another_descriptor(listener_), address_, chosen.term, chosen.not_before};
  succeed(here);
  answers_.here(std::move(here));
}

void SuccessionFinder::succeed(Here& here) {
  here.sure = [this] { return core_.sure(SteadyClock::now()); };
  here.before_round = [this](int round, int, int, const VoterSet& voters, std::function<void()> go) {
    go_ = std::move(go);
    feed(ev::Opening{round, voters});
  };
  RoundSuccession succession;
  succession.echoed = [this](VoterId voter, MonoTime stamp, int round) { feed(ev::Echoed{voter, stamp, round}); };
  succession.left = [this](VoterId voter) { feed(ev::Left{voter}); };
  succession.settled_round = [this] { return core_.settled_round(); };
  succession.earlier = [this] { return core_.earlier(); };
  succession.seeker = [this](const msg::Seek& seek) {
    auto at = host_at();
    // The node does not seek this candidate's votes, but may know of a later round.
    feed(ev::Seeker{seek, true});
    feed(ev::Seeker{seek, false});
    return at;
  };
  here.succession = std::move(succession);
}

}  // namespace dtrain::launcher
