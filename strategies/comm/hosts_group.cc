// How the group forms and fails, and its reductions; see hosts_group.h.
#include "strategies/comm/hosts_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strategies/comm/own_process.h"
#include "strategies/comm/reduce.h"

namespace dtrain {
namespace {

Call forming(ShmWait::Deadline deadline) {
  Call call(0, CollectiveOp::barrier, 0, ElementType::u8, Reduction::sum, -1, {});
  call.limit = ShmWait::Limit(deadline);
  return call;
}

std::size_t host_of(const std::vector<std::vector<int>>& hosts, int rank) {
  std::size_t host = 0;
  while (std::find(hosts[host].begin(), hosts[host].end(), rank) == hosts[host].end()) ++host;
  return host;
}

}  // namespace

std::unique_ptr<CommGroup> form_group(MeetingPlace& place, const GroupOptions& options) {
  const auto deadline = ShmWait::after(options.join_timeout);
  const std::vector<PeerFacts> facts = meet(place, options.rank, options.ranks, deadline);
  const auto hosts = by_host(facts);
  if (hosts.size() > 1) return std::make_unique<HostsGroup>(place, facts, options.rank, options.slot_bytes, deadline);
  ShmSegment segment = meet_on_this_host(place, options.rank, facts, hosts.front(), options.slot_bytes, deadline);
  return std::make_unique<ShmGroup>(std::move(segment), options.rank, have_cores(facts, options.rank), deadline);
}

HostsGroup::HostsGroup(MeetingPlace& place, const std::vector<PeerFacts>& facts, int rank, std::uint32_t slot_bytes,
                       TcpLinks::Deadline deadline)
    : process_(own_process()),
      rank_(rank),
      facts_(facts),
      hosts_(by_host(facts)),
      here_(host_of(hosts_, rank)),
      layered_(hosts_.size() < facts.size()),
      local_(form_here(place, slot_bytes, deadline)),
      links_(std::make_unique<TcpLinks>(place, rank, others(), local_->waiting(), deadline)) {
  local_->waiting().look_elsewhere([this](const std::string& during) { links_->heed(during); },
                                   [this] { links_->answer(); });
  const Call call = forming(deadline);
  Sends sends;
  Receives receives;
  for (const int other : others()) {
    sends.push_back({other, {}});
    receives.push_back({other, {}});
  }
  run(call, [&] { links_->exchange(call, sends, receives); });
  p2p().reach_hosts(*links_, others());
}

std::unique_ptr<ShmGroup> HostsGroup::form_here(MeetingPlace& place, std::uint32_t slot_bytes,
                                                TcpLinks::Deadline deadline) const {
  ShmSegment segment = meet_on_this_host(place, rank_, facts_, members(), slot_bytes, deadline);
  P2pBell::Pipe pipe = P2pBell::hang(segment, rank_);
  auto group = std::make_unique<ShmGroup>(std::move(segment), rank_, have_cores(facts_, rank_), deadline);
  try {
    group->p2p().use_pipes(std::move(pipe), facts_);
  } catch (const CollectiveError& error) {  // so that the others hear of it, and not that this rank left
    group->waiting().fail({error.kind(), error.rank()}, "forming the group", "");
  }
  group->sync_all(forming(deadline));  // all have opened all pipes: any may leave now
  return group;
}

HostsGroup::~HostsGroup() {
  if (own_process() != process_) return;
  links_->leave();
  p2p().end();  // while the links are there
}

std::vector<int> HostsGroup::others() const {
  std::vector<int> ranks;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (host != here_) ranks.insert(ranks.end(), hosts_[host].begin(), hosts_[host].end());
  }
  return ranks;
}

void HostsGroup::run(const Call& call, const std::function<void()>& steps) {
  try {
    local_->waiting().check(call.name());
    steps();
  } catch (const CollectiveError&) {
    links_->tell();
    throw;
  }
}

void HostsGroup::fail(const Failure& failure, const std::string& during, const std::string& detail) {
  try {
    local_->fail(failure, during, detail);
  } catch (const CollectiveError&) {
    links_->tell();
    throw;
  }
}

void HostsGroup::abort() noexcept {
  local_->abort();
  links_->tell();
}

HostsGroup::Speakers HostsGroup::speakers(int root) const {
  Speakers ranks;
  for (const std::vector<int>& host : hosts_) {
    const bool has_root = std::find(host.begin(), host.end(), root) != host.end();
    ranks.push_back(has_root ? root : host.front());
  }
  return ranks;
}

void HostsGroup::all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction,
                            Timeout timeout) {
  const Call call(++operations_, CollectiveOp::all_reduce, count, type, reduction, -1, timeout);
  run(call, [&] {
    const Speakers ranks = speakers();
    if (layered_) local_->reduce_all(call, data, count, speaks(ranks));
    if (speaks(ranks)) reduce_between(call, ranks, data, count);
    if (layered_) local_->spread(call, data, count * size_of(type), ranks[here_]);
  });
}

void HostsGroup::reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root,
                        Timeout timeout) {
  const Call call(++operations_, CollectiveOp::reduce, count, type, reduction, root, timeout);
  run(call, [&] {
    const Speakers ranks = speakers(root);
    // What the host makes of it goes to the root, and not into the program's memory.
    std::vector<std::byte> sum;
    std::byte* place = data;
    if (layered_ && speaks(ranks) && rank_ != root) {
      sum.assign(data, data + count * size_of(type));
      place = sum.data();
    }
    if (layered_) local_->reduce_all(call, place, count, speaks(ranks));
    if (speaks(ranks)) reduce_to(call, ranks, root, place, count);
  });
}

void HostsGroup::reduce_rows(const Call& call, const std::byte* own, const std::vector<std::byte>& staging,
                             std::byte* out, std::size_t count) const {
  const std::size_t row = count * size_of(call.type());
  std::vector<const std::byte*> sources;
  for (std::size_t host = 0, other = 0; host < hosts_.size(); ++host)
    sources.push_back(host == here_ ? own : staging.data() + other++ * row);
  // Where hosts have several ranks each has divided by all of them already.
  const bool divided = layered_ && call.reduction() == Reduction::avg;
  if (count > 0) reduce_in_order(call.type(), divided ? Reduction::sum : call.reduction(), sources, out, count);
}

void HostsGroup::reduce_between(const Call& call, const Speakers& speakers, std::byte* data, std::size_t count) {
  const std::size_t bytes = count * size_of(call.type());
  if (bytes > kWholeBytes) return reduce_slices(call, speakers, data, count);
  std::vector<std::byte> staging(bytes * (speakers.size() - 1));
  Sends sends;
  Receives receives;
  for (const int speaker : speakers) {
    if (speaker == rank_) continue;
    receives.push_back({speaker, std::span(staging).subspan(receives.size() * bytes, bytes)});
    sends.push_back({speaker, {data, bytes}});
  }
  links_->exchange(call, sends, receives);
  reduce_rows(call, data, staging, data, count);
}

void HostsGroup::reduce_slices(const Call& call, const Speakers& speakers, std::byte* data, std::size_t count) {
  const std::size_t width = size_of(call.type()), step = kChunkBytes / width;
  std::vector<std::byte> staging;
  for (std::size_t done = 0; done < count; done += step) {
    const std::size_t n = std::min(step, count - done);
    const auto begin = [&](std::size_t host) { return n * host / speakers.size(); };
    const auto slice = [&](std::size_t host) {
      return std::span(data + (done + begin(host)) * width, (begin(host + 1) - begin(host)) * width);
    };
    const std::span<std::byte> own = slice(here_);
    staging.resize(own.size() * (speakers.size() - 1));
    Sends raw, reduced;
    Receives parts, results;
    for (std::size_t host = 0; host < speakers.size(); ++host) {
      if (host == here_) continue;
      parts.push_back({speakers[host], std::span(staging).subspan(parts.size() * own.size(), own.size())});
      raw.push_back({speakers[host], slice(host)});
      results.push_back({speakers[host], slice(host)});
      reduced.push_back({speakers[host], own});
    }
    links_->exchange(call, raw, parts);
    reduce_rows(call, own.data(), staging, own.data(), own.size() / width);
    links_->exchange(call, reduced, results);
  }
}

void HostsGroup::reduce_to(const Call& call, const Speakers& speakers, int root, std::byte* data, std::size_t count) {
  const std::size_t width = size_of(call.type()), step = kChunkBytes / width / speakers.size();
  std::vector<std::byte> staging;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, count - done);
    const std::span<std::byte> part(data + done * width, n * width);
    if (rank_ != root) {
      links_->exchange(call, {{root, part}}, {});
    } else {
      staging.resize(part.size() * (speakers.size() - 1));
      Receives receives;
      for (const int speaker : speakers) {
        if (speaker != rank_)
          receives.push_back({speaker, std::span(staging).subspan(receives.size() * part.size(), part.size())});
      }
      links_->exchange(call, {}, receives);
      reduce_rows(call, part.data(), staging, part.data(), n);
    }
    done += n;
  } while (done < count);
}

void HostsGroup::reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                                ElementType type, Reduction reduction, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::reduce_scatter, count, type, reduction, -1, timeout);
  run(call, [&] {
    const Speakers ranks = speakers();
    const std::size_t width = size_of(type), world = facts_.size();
    const std::size_t step = std::max<std::size_t>(1, kChunkBytes / width / world);
    std::vector<std::byte> all, staging;
    std::size_t done = 0;
    do {
      const std::size_t n = std::min(step, count - done), part = n * width;
      // A part for every rank, those of one host in a row.
      all.resize(world * part);
      std::vector<std::span<std::byte>> rows;
      std::vector<const std::byte*> places(world);
      std::byte* next = all.data();
      for (const std::vector<int>& host : hosts_) {
        rows.emplace_back(next, host.size() * part);
        for (const int r : host) {
          places[static_cast<std::size_t>(r)] = next;
          if (n > 0) std::memcpy(next, inputs[static_cast<std::size_t>(r)] + done * width, part);
          next += part;
        }
      }
      const std::span<std::byte> own = rows[here_];
      if (layered_) local_->reduce_all(call, all.data(), world * n, speaks(ranks));
      if (speaks(ranks)) {
        staging.resize(own.size() * (ranks.size() - 1));
        Sends sends;
        Receives receives;
        for (std::size_t host = 0; host < ranks.size(); ++host) {
          if (host == here_) continue;
          receives.push_back({ranks[host], std::span(staging).subspan(receives.size() * own.size(), own.size())});
          sends.push_back({ranks[host], rows[host]});
        }
        links_->exchange(call, sends, receives);
        reduce_rows(call, own.data(), staging, own.data(), own.size() / width);
      }
      if (layered_) {
        local_->deal(call, places, output + done * width, part, ranks[here_]);
      } else if (part > 0) {
        std::memcpy(output + done * width, own.data(), part);
      }
      done += n;
    } while (done < count);
  });
}

}  // namespace dtrain
