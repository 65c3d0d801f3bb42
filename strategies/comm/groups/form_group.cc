// See form_group.h.
#include "strategies/comm/groups/form_group.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "strategies/comm/bootstrap/peers.h"
#include "strategies/comm/hosts/host_collectives.h"
#include "strategies/comm/local/local_collectives.h"
#include "strategies/comm/messages/p2p.h"

namespace dtrain {
namespace {

const std::vector<int>& host_with(const std::vector<std::vector<int>>& hosts, int rank) {
  return *std::find_if(hosts.begin(), hosts.end(), [rank](const std::vector<int>& ranks) {
    return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
  });
}

// The threads of all ranks of this host sleep on pipes from now on: they will have connections to sleep on too.
void use_pipes(P2p& p2p, P2pBell::Pipe pipe, const std::vector<PeerFacts>& facts, LocalCollectives& local,
               ShmWait::Deadline deadline) {
  try {
    p2p.use_pipes(std::move(pipe), facts);
  } catch (const CollectiveError& error) {  // recorded, so that the others do not hear that this rank left
    local.wait().fail({error.kind(), error.rank()}, "forming the group", "");
  }
  local.barrier_here(CollectiveCall::forming(deadline));  // each has opened the pipes of all: any may leave now
}

}  // namespace

std::unique_ptr<CommGroup> form_group(GroupStore& store, const GroupOptions& options) {
  const int rank = options.rank;
  const auto deadline = ShmWait::after(options.join_timeout);
  const std::vector<PeerFacts> facts = meet(store, rank, options.ranks, deadline);
  const auto hosts = by_host(facts);
  const bool spans_hosts = hosts.size() > 1;
  ShmSegment segment = meet_on_this_host(store, rank, facts, host_with(hosts, rank), options.slot_bytes, deadline);
  P2pBell::Pipe pipe = spans_hosts ? P2pBell::hang(segment, rank) : P2pBell::Pipe{};
  auto local = std::make_unique<LocalCollectives>(std::move(segment), rank, have_cores(facts, rank), deadline);
  auto p2p = std::make_unique<P2p>(local->segment(), local->watch(), local->wait(), rank, local->wait().spin());
  std::unique_ptr<HostCollectives> between;
  if (spans_hosts) {
    use_pipes(*p2p, std::move(pipe), facts, *local, deadline);
    between = std::make_unique<HostCollectives>(store, facts, rank, *local, deadline);
    p2p->reach_hosts(between->links(), between->others());
  }
  return std::make_unique<CommGroup>(rank, std::move(local), std::move(p2p), std::move(between));
}

}  // namespace dtrain
