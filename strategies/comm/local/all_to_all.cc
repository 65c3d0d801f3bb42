// all_to_all; see local_collectives.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "strategies/comm/local/local_collectives.h"
#include "strategies/comm/local/move_bytes.h"
#include "strategies/comm/memory/cache_line.h"

namespace dtrain {
namespace {

// What a rank says about one other rank: how many bytes it has for that rank, how many it expects from it, and where
// the bytes that it has lie in its own memory; 0: in its slot.
struct Row {
  std::uint64_t has, expects, place;
};

bool any_overlap(Inputs inputs, Outputs outputs) {
  return std::any_of(inputs.begin(), inputs.end(), [&](auto& in) {
    return std::any_of(outputs.begin(), outputs.end(), [&](auto& out) { return overlap(in, out); });
  });
}

// One all_to_all of one rank. It takes as many steps as the largest part needs; in each of them a slot holds an equal
// share for every member. In the first step the slot begins with a table: a Row about each member. A rank whose parts
// are all of one size says that size with begin() instead, and writes no table. If no input overlaps an output, the
// others may read the inputs where they lie, after the steps.
class AllToAll {
 public:
  AllToAll(LocalSteps& steps, DirectReads& reads, const CollectiveCall& call, Inputs inputs, Outputs outputs)
      : steps_(steps),
        reads_(reads),
        call_(call),
        inputs_(inputs),
        outputs_(outputs),
        table_(lines_for(steps.members().size() * sizeof(Row))),
        share_(lines_in((steps.slot_bytes - table_) / steps.members().size())),
        largest_input_(
            std::max_element(inputs.begin(), inputs.end(), [](auto& a, auto& b) { return a.size() < b.size(); })
                ->size()),
        is_read_(reads.reads(largest_input_) && !any_overlap(inputs, outputs)),
        is_equal_(!is_read_ && has_equal_parts()) {}

  void run() {
    do {
      steps_.begin(call_, is_equal_ ? largest_input_ + 1 : 0);
      if (done_ == 0 && !is_equal_) write_table();
      if (!is_read_) put();
      steps_.sync_and_compare(call_);
      if (done_ == 0) agree();
      if (!is_read_) move_bytes(part(output(steps_.rank)).data(), part(input(steps_.rank)));
      take(false);
      done_ += share_;
    } while (done_ < largest_);
    if (any_is_read_) read();
  }

 private:
  std::span<const std::byte> input(int member) const { return inputs_[static_cast<std::size_t>(member)]; }
  std::span<std::byte> output(int member) const { return outputs_[static_cast<std::size_t>(member)]; }
  // What this step carries of a whole message.
  template <class Byte>
  std::span<Byte> part(std::span<Byte> whole) const {
    const std::size_t at = std::min(done_, whole.size());
    return whole.subspan(at, std::min(share_, whole.size() - at));
  }
  std::byte* in_slot(int from, int to) const { return steps_.slot(from) + table_ + steps_.seat(to) * share_; }

  bool has_equal_parts() const {
    return std::all_of(steps_.members().begin(), steps_.members().end(), [this](int r) {
      return input(r).size() == largest_input_ && output(r).size() == largest_input_;
    });
  }

  void write_table() {
    for (const int r : steps_.members()) {
      const Row about{input(r).size(), output(r).size(), is_read_ ? DirectReads::place(input(r).data()) : 0};
      std::memcpy(steps_.own_slot() + steps_.seat(r) * sizeof about, &about, sizeof about);
    }
  }

  // What `member` says about another.
  Row row(int member, int about) const {
    const std::uint64_t equal = steps_.place(member);
    Row said{equal - 1, equal - 1, 0};
    if (equal == 0) std::memcpy(&said, steps_.slot(member) + steps_.seat(about) * sizeof said, sizeof said);
    return said;
  }

  // All ranks see the same tables, and come to the same decisions.
  void agree() {
    for (const int from : steps_.members()) {
      for (const int to : steps_.members()) {
        const Row said = row(from, to);
        const std::uint64_t expects = row(to, from).expects;
        if (said.has != expects)
          steps_.wait().fail(
              {FailureKind::mismatched, to}, call_.name(),
              fmt::format("rank {} has {} bytes for rank {}, which expects {}", from, said.has, to, expects));
        std::size_t& largest = said.place == 0 ? largest_ : largest_read_;
        largest = std::max(largest, static_cast<std::size_t>(said.has));
        any_is_read_ = any_is_read_ || said.place != 0;
      }
    }
    if (!any_is_read_) return;
    places_.resize(static_cast<std::size_t>(steps_.ranks));
    for (const int from : steps_.members()) places_[static_cast<std::size_t>(from)] = row(from, steps_.rank).place;
  }

  // Whether this rank reads what `member` has for it, and not from the slot.
  bool reads_from(int member) const { return any_is_read_ && places_[static_cast<std::size_t>(member)] != 0; }

  void put() {
    for (const int r : steps_.members())
      if (r != steps_.rank) move_bytes(in_slot(steps_.rank, r), part(input(r)));
  }

  // Copy out of the slots of those members that this rank reads from, or of the others.
  void take(bool of_those_read) {
    for (const int r : steps_.members()) {
      const std::span<std::byte> into = part(output(r));
      if (r != steps_.rank && reads_from(r) == of_those_read)
        move_bytes(into.data(), {in_slot(r, steps_.rank), into.size()});
    }
  }

  // If some rank could not read, all go through slots.
  void read() {
    bool well = true;
    for (const int r : steps_.members()) {
      if (r != steps_.rank && reads_from(r))
        well = well && reads_.read(call_, r, places_[static_cast<std::size_t>(r)], output(r));
    }
    const bool all = reads_.all_have_read(call_, well);
    if (is_read_) move_bytes(output(steps_.rank).data(), input(steps_.rank));
    for (done_ = 0; !all && done_ < largest_read_; done_ += share_) {
      steps_.begin(call_);
      if (is_read_) put();
      steps_.sync_and_compare(call_);
      take(true);
    }
  }

  LocalSteps& steps_;
  DirectReads& reads_;
  const CollectiveCall& call_;
  const Inputs inputs_;
  const Outputs outputs_;
  const std::size_t table_, share_;  // bytes of a slot
  const std::size_t largest_input_;
  const bool is_read_;   // the others read this rank's inputs where they lie
  const bool is_equal_;  // all parts of this rank have one size
  // What the ranks agree on: the largest part that goes through slots, and the largest that is read.
  std::size_t largest_ = 0, largest_read_ = 0;
  bool any_is_read_ = false;
  std::vector<std::uint64_t> places_;  // of what the others have for this rank, by rank; 0: in the slot
  std::size_t done_ = 0;               // bytes of each part
};

}  // namespace

void LocalCollectives::all_to_all_here(const CollectiveCall& call, Inputs inputs, Outputs outputs) {
  AllToAll(steps_, reads_, call, inputs, outputs).run();
}

}  // namespace dtrain
