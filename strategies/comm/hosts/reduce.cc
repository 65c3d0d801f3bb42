// all_reduce, reduce and reduce_scatter; see host_collectives.h.
#include "strategies/comm/kernels/reduce.h"

#include <algorithm>
#include <cstring>

#include "strategies/comm/hosts/host_collectives.h"

namespace dtrain {

void HostCollectives::all_reduce(const CollectiveCall& call, std::byte* data, std::size_t count) {
  run(call, [&] {
    const Leaders ranks = leaders();
    if (layered_) local_.reduce_here(call, data, count, leads(ranks));
    if (leads(ranks)) reduce_between(call, ranks, data, count);
    if (layered_) local_.broadcast_here(call, data, count * size_of(call.type()), ranks[here_]);
  });
}

void HostCollectives::reduce(const CollectiveCall& call, std::byte* data, std::size_t count, int root) {
  run(call, [&] {
    const Leaders ranks = leaders(root);
    // The host's sum goes to the root alone, and must not change the program's memory.
    std::vector<std::byte> sum;
    std::byte* place = data;
    if (layered_ && leads(ranks) && rank_ != root) {
      sum.assign(data, data + count * size_of(call.type()));
      place = sum.data();
    }
    if (layered_) local_.reduce_here(call, place, count, leads(ranks));
    if (leads(ranks)) reduce_to(call, ranks, root, place, count);
  });
}

void HostCollectives::reduce_rows(const CollectiveCall& call, const std::byte* own,
                                  const std::vector<std::byte>& staging, std::byte* out, std::size_t count) const {
  const std::size_t row = count * size_of(call.type());
  std::vector<const std::byte*> sources;
  for (std::size_t host = 0, other = 0; host < hosts_.size(); ++host)
    sources.push_back(host == here_ ? own : staging.data() + other++ * row);
  // Where hosts have several ranks, each host has divided by the number of all ranks already.
  const bool divided = layered_ && call.reduction() == Reduction::avg;
  if (count > 0) reduce_in_order(call.type(), divided ? Reduction::sum : call.reduction(), sources, out, count);
}

void HostCollectives::reduce_between(const CollectiveCall& call, const Leaders& leaders, std::byte* data,
                                     std::size_t count) {
  const std::size_t bytes = count * size_of(call.type());
  if (bytes > kWholeBytes) return reduce_slices(call, leaders, data, count);
  std::vector<std::byte> staging(bytes * (leaders.size() - 1));
  Sends sends;
  Receives receives;
  for (const int leader : leaders) {
    if (leader == rank_) continue;
    receives.push_back({leader, std::span(staging).subspan(receives.size() * bytes, bytes)});
    sends.push_back({leader, {data, bytes}});
  }
  links_.exchange(call, sends, receives);
  reduce_rows(call, data, staging, data, count);
}

void HostCollectives::reduce_slices(const CollectiveCall& call, const Leaders& leaders, std::byte* data,
                                    std::size_t count) {
  const std::size_t width = size_of(call.type()), step = kChunkBytes / width;
  std::vector<std::byte> staging;
  for (std::size_t done = 0; done < count; done += step) {
    const std::size_t n = std::min(step, count - done);
    const auto begin = [&](std::size_t host) { return n * host / leaders.size(); };
    const auto slice = [&](std::size_t host) {
      return std::span(data + (done + begin(host)) * width, (begin(host + 1) - begin(host)) * width);
    };
    const std::span<std::byte> own = slice(here_);
    staging.resize(own.size() * (leaders.size() - 1));
    Sends raw, reduced;
    Receives parts, results;
    for (std::size_t host = 0; host < leaders.size(); ++host) {
      if (host == here_) continue;
      parts.push_back({leaders[host], std::span(staging).subspan(parts.size() * own.size(), own.size())});
      raw.push_back({leaders[host], slice(host)});
      results.push_back({leaders[host], slice(host)});
      reduced.push_back({leaders[host], own});
    }
    links_.exchange(call, raw, parts);
    reduce_rows(call, own.data(), staging, own.data(), own.size() / width);
    links_.exchange(call, reduced, results);
  }
}

void HostCollectives::reduce_to(const CollectiveCall& call, const Leaders& leaders, int root, std::byte* data,
                                std::size_t count) {
  const std::size_t width = size_of(call.type()), step = kChunkBytes / width / leaders.size();
  std::vector<std::byte> staging;
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(step, count - done);
    const std::span<std::byte> part(data + done * width, n * width);
    if (rank_ != root) {
      links_.exchange(call, {{root, part}}, {});
    } else {
      staging.resize(part.size() * (leaders.size() - 1));
      Receives receives;
      for (const int leader : leaders) {
        if (leader != rank_)
          receives.push_back({leader, std::span(staging).subspan(receives.size() * part.size(), part.size())});
      }
      links_.exchange(call, {}, receives);
      reduce_rows(call, part.data(), staging, part.data(), n);
    }
    done += n;
  } while (done < count);
}

void HostCollectives::reduce_scatter(const CollectiveCall& call, const std::vector<const std::byte*>& inputs,
                                     std::byte* output, std::size_t count) {
  run(call, [&] {
    const Leaders ranks = leaders();
    const std::size_t width = size_of(call.type());
    const std::size_t step = std::max<std::size_t>(1, kChunkBytes / width / ranks_);
    std::vector<std::byte> all, staging;
    std::size_t done = 0;
    do {
      const std::size_t n = std::min(step, count - done), part = n * width;
      // A part for every rank; the parts of one host form a row.
      all.resize(ranks_ * part);
      std::vector<std::span<std::byte>> rows;
      std::vector<const std::byte*> places(ranks_);
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
      if (layered_) local_.reduce_here(call, all.data(), ranks_ * n, leads(ranks));
      if (leads(ranks)) {
        staging.resize(own.size() * (ranks.size() - 1));
        Sends sends;
        Receives receives;
        for (std::size_t host = 0; host < ranks.size(); ++host) {
          if (host == here_) continue;
          receives.push_back({ranks[host], std::span(staging).subspan(receives.size() * own.size(), own.size())});
          sends.push_back({ranks[host], rows[host]});
        }
        links_.exchange(call, sends, receives);
        reduce_rows(call, own.data(), staging, own.data(), own.size() / width);
      }
      if (layered_) {
        local_.scatter_here(call, places, output + done * width, part, ranks[here_]);
      } else if (part > 0) {
        std::memcpy(output + done * width, own.data(), part);
      }
      done += n;
    } while (done < count);
  });
}

}  // namespace dtrain
