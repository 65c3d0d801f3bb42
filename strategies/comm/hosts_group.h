#pragma once
// Collectives among ranks of several hosts: shared memory on each host, TCP between them. A host is the ranks that can
// share memory (peers.h), whatever LOCAL_WORLD_SIZE says; the first of its ranks speaks for it, or the root where that
// is one of them.
//
//   all_reduce, reduce   reduced on each host | then among the speakers: up to 64 KiB each sends its own to all, larger
//                        ones slice by slice, each speaker reducing one | all_reduce: to all ranks of each host
//   broadcast            root to speakers: to one or up to 64 KiB directly, else a slice to each, which they exchange |
//                        to all ranks of each host
//   all_gather           gathered on each host | among the speakers | to all ranks of each host
//   reduce_scatter       reduced on each host, a part for every rank | each speaker gets and reduces its host's parts |
//                        dealt out
//   gather, scatter, all_to_all   on one host through shared memory, between ranks of different hosts directly
//
// Reductions are made in the order of the ranks on each host, and then in the order of the hosts' first ranks: for one
// distribution of ranks over hosts the result is the same bits on every rank and in every run. With one rank on each
// host it is what ShmGroup gives; else float16 and bfloat16 are rounded once on each host and once more, and an average
// is divided on each host, so that a sum that is larger than the type's largest number does no harm.
//
// A failure is told to all other hosts as soon as a rank throws it. Two that happen at the same moment may be told
// apart by ranks of different hosts. Where a rank is late, all wait a little longer, to find out whether it waits
// itself and for whom (blame.h).
#include <functional>

#include "strategies/comm/group.h"
#include "strategies/comm/shm_group.h"
#include "strategies/comm/tcp_links.h"

namespace dtrain {

class HostsGroup final : public CommGroup {
 public:
  // Collective; `facts` are those of all ranks (meet()). Throws std::runtime_error where a rank cannot be reached,
  // CollectiveError where one dies meanwhile.
  HostsGroup(MeetingPlace& place, const std::vector<PeerFacts>& facts, int rank, std::uint32_t slot_bytes,
             TcpLinks::Deadline deadline);
  ~HostsGroup() override;

  void barrier(Timeout timeout) override;
  void all_reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, Timeout timeout) override;
  void broadcast(std::byte* data, std::size_t bytes, int root, Timeout timeout) override;
  void all_gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes,
                  Timeout timeout) override;
  void reduce(std::byte* data, std::size_t count, ElementType type, Reduction reduction, int root,
              Timeout timeout) override;
  void gather(const std::byte* input, const std::vector<std::byte*>& outputs, std::size_t bytes, int root,
              Timeout timeout) override;
  void scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t bytes, int root,
               Timeout timeout) override;
  void all_to_all(Inputs inputs, Outputs outputs, Timeout timeout) override;
  void reduce_scatter(const std::vector<const std::byte*>& inputs, std::byte* output, std::size_t count,
                      ElementType type, Reduction reduction, Timeout timeout) override;

  P2p& p2p() override { return local_->p2p(); }

  [[noreturn]] void fail(const Failure& failure, const std::string& during, const std::string& detail) override;
  void abort() noexcept override;
  void stop() noexcept override { local_->stop(); }
  SegmentHeader& header() const override { return local_->header(); }
  std::uint64_t operations() const override { return operations_; }

 private:
  using Receives = std::vector<TcpLinks::Receive>;
  using Sends = std::vector<TcpLinks::Send>;
  // One rank of each host, in the order of the hosts.
  using Speakers = std::vector<int>;

  // Up to this a message goes to all at once; of a larger one, how much is under way at a time.
  static constexpr std::size_t kWholeBytes = 64U << 10;
  static constexpr std::size_t kChunkBytes = 8U << 20;

  void run(const Call& call, const std::function<void()>& steps);

  Speakers speakers(int root = -1) const;
  bool speaks(const Speakers& speakers) const { return speakers[here_] == rank_; }
  const std::vector<int>& members() const { return hosts_[here_]; }
  std::unique_ptr<ShmGroup> form_here(MeetingPlace& place, std::uint32_t slot_bytes, TcpLinks::Deadline deadline) const;
  bool is_here(int rank) const { return local_->segment().rank(rank).seat >= 0; }
  std::vector<int> others() const;
  void hand_on(const Call& call, int speaker, const std::vector<std::byte*>& outputs, std::size_t bytes);

  // Among speakers alone.
  void reduce_between(const Call& call, const Speakers& speakers, std::byte* data, std::size_t count);
  void reduce_slices(const Call& call, const Speakers& speakers, std::byte* data, std::size_t count);
  void reduce_to(const Call& call, const Speakers& speakers, int root, std::byte* data, std::size_t count);
  void spread_between(const Call& call, const Speakers& speakers, int root, std::byte* data, std::size_t bytes);
  void spread_slices(const Call& call, Speakers speakers, int root, std::byte* data, std::size_t bytes);
  // Of all hosts, in their order: `own` for this one, the rows of `staging` for the others.
  void reduce_rows(const Call& call, const std::byte* own, const std::vector<std::byte>& staging, std::byte* out,
                   std::size_t count) const;

  const int process_;  // a forked child is not the rank
  const int rank_;
  const std::vector<PeerFacts> facts_;
  const std::vector<std::vector<int>> hosts_;
  const std::size_t here_;  // which of them is this one
  const bool layered_;      // some host has several ranks
  std::unique_ptr<ShmGroup> local_;
  std::unique_ptr<TcpLinks> links_;
  std::uint64_t operations_ = 0;
};

}  // namespace dtrain
