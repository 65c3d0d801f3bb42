// The collectives that only move bytes; see hosts_group.h.
#include <algorithm>
#include <cstring>

#include "strategies/comm/hosts_group.h"

namespace dtrain {
namespace {

// How much of a gather's result is handed on within a host at a time.
constexpr std::size_t kPackBytes = 1U << 20;

std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

}  // namespace

void HostsGroup::barrier(Timeout timeout) {
  const Call call(++operations_, CollectiveOp::barrier, 0, ElementType::u8, Reduction::sum, -1, timeout);
  run(call, [&] {
    const Speakers ranks = speakers();
    if (layered_) local_->sync_all(call);
    if (speaks(ranks)) {
      Sends sends;
      Receives receives;
      for (const int speaker : ranks) {
        if (speaker == rank_) continue;
        sends.push_back({speaker, {}});
        receives.push_back({speaker, {}});
      }
      links_->exchange(call, sends, receives);
    }
    if (layered_) local_->sync_all(call);
  });
}

void HostsGroup::broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::broadcast, bytes, ElementType::u8, Reduction::sum, root, timeout);
  run(call, [&] {
    const Speakers ranks = speakers(root);
    if (speaks(ranks)) spread_between(call, ranks, root, data, bytes);
    if (layered_) local_->spread(call, data, bytes, ranks[here_]);
  });
}

void HostsGroup::spread_between(const Call& call, const Speakers& speakers, int root, std::byte* data,
                                std::size_t bytes) {
  if (bytes > kWholeBytes && speakers.size() > 2) return spread_slices(call, speakers, root, data, bytes);
  Sends sends;
  Receives receives;
  if (rank_ != root) receives.push_back({root, {data, bytes}});
  for (const int speaker : speakers) {
    if (rank_ == root && speaker != root) sends.push_back({speaker, {data, bytes}});
  }
  links_->exchange(call, sends, receives);
}

// The root sends each byte once, and the others pass them on to each other.
void HostsGroup::spread_slices(const Call& call, Speakers speakers, int root, std::byte* data, std::size_t bytes) {
  std::erase(speakers, root);
  for (std::size_t done = 0; done < bytes; done += kChunkBytes) {
    const std::size_t n = std::min(kChunkBytes, bytes - done);
    const auto slice = [&](std::size_t i) {
      const std::size_t begin = n * i / speakers.size(), end = n * (i + 1) / speakers.size();
      return std::span(data + done + begin, end - begin);
    };
    Sends first, second;
    Receives own, rest;
    for (std::size_t i = 0; i < speakers.size(); ++i) {
      if (rank_ == root) first.push_back({speakers[i], slice(i)});
      if (rank_ == speakers[i]) own.push_back({root, slice(i)});
    }
    links_->exchange(call, first, own);
    if (rank_ == root) continue;
    for (std::size_t i = 0; i < speakers.size(); ++i) {
      if (speakers[i] == rank_) continue;
      second.push_back({speakers[i], own.front().into});
      rest.push_back({speakers[i], slice(i)});
    }
    links_->exchange(call, second, rest);
  }
}

void HostsGroup::all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes,
                            Timeout timeout) {
  const Call call(++operations_, CollectiveOp::all_gather, bytes, ElementType::u8, Reduction::sum, -1, timeout);
  run(call, [&] {
    const Speakers ranks = speakers();
    local_->collect(call, input, outputs, bytes);
    if (speaks(ranks)) {
      Sends sends;
      Receives receives;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        if (host == here_) continue;
        for (const int r : members()) sends.push_back({ranks[host], {outputs[at(r)], bytes}});
        for (const int r : hosts_[host]) receives.push_back({ranks[host], {outputs[at(r)], bytes}});
      }
      links_->exchange(call, sends, receives);
    }
    if (layered_) hand_on(call, ranks[here_], outputs, bytes);
  });
}

// What the speaker has of ranks of other hosts: a part of each at a time, so that small ones need no step each.
void HostsGroup::hand_on(const Call& call, int speaker, const std::vector<std::byte*>& outputs, std::size_t bytes) {
  const std::vector<int> ranks = others();
  const std::size_t step = std::max<std::size_t>(1, kPackBytes / ranks.size());
  std::vector<std::byte> packed;
  for (std::size_t done = 0; done < bytes; done += step) {
    const std::size_t n = std::min(step, bytes - done);
    packed.resize(n * ranks.size());
    for (std::size_t i = 0; i < ranks.size() && rank_ == speaker; ++i)
      std::memcpy(packed.data() + i * n, outputs[at(ranks[i])] + done, n);
    local_->spread(call, packed.data(), packed.size(), speaker);
    for (std::size_t i = 0; i < ranks.size() && rank_ != speaker; ++i)
      std::memcpy(outputs[at(ranks[i])] + done, packed.data() + i * n, n);
  }
}

void HostsGroup::gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
                        Timeout timeout) {
  const Call call(++operations_, CollectiveOp::gather, bytes, ElementType::u8, Reduction::sum, root, timeout);
  run(call, [&] {
    if (!is_here(root)) return links_->exchange(call, {{root, {input, bytes}}}, {});
    local_->collect(call, input, outputs, bytes);
    if (rank_ != root) return;
    Receives receives;
    for (const int r : others()) receives.push_back({r, {outputs[at(r)], bytes}});
    links_->exchange(call, {}, receives);
  });
}

void HostsGroup::scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
                         Timeout timeout) {
  const Call call(++operations_, CollectiveOp::scatter, bytes, ElementType::u8, Reduction::sum, root, timeout);
  run(call, [&] {
    if (!is_here(root)) return links_->exchange(call, {}, {{root, {output, bytes}}});
    local_->deal(call, inputs, output, bytes, root);
    if (rank_ != root) return;
    Sends sends;
    for (const int r : others()) sends.push_back({r, {inputs[at(r)], bytes}});
    links_->exchange(call, sends, {});
  });
}

void HostsGroup::all_to_all(Inputs inputs, Outputs outputs, Timeout timeout) {
  const Call call(++operations_, CollectiveOp::all_to_all, 0, ElementType::u8, Reduction::sum, -1, timeout);
  run(call, [&] {
    local_->exchange(call, inputs, outputs);
    Sends sends;
    Receives receives;
    for (const int r : others()) {
      sends.push_back({r, inputs[at(r)]});
      receives.push_back({r, outputs[at(r)]});
    }
    links_->exchange(call, sends, receives);
  });
}

}  // namespace dtrain
