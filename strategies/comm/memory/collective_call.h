#pragma once
// One collective of a group in progress: what the program called, for the other ranks to compare with and for messages.
#include <fmt/format.h>

#include <iterator>
#include <string>

#include "strategies/comm/element.h"
#include "strategies/comm/shm_wait.h"

namespace dtrain {

enum class CollectiveOp : std::uint8_t {
  barrier = 1,
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  reduce,
  gather,
  scatter,
  all_to_all
};

struct Call {
  OpDescriptor descriptor;
  std::chrono::milliseconds timeout;
  ShmWait::Limit limit;
  std::uint64_t number;  // of the group's collectives, from 1; 0 while it forms

  Call(std::uint64_t nth, CollectiveOp op, std::size_t count, ElementType type, Reduction reduction, int root,
       std::chrono::milliseconds time)
      : timeout(time), limit(time), number(nth) {
    descriptor.op = static_cast<std::uint8_t>(op);
    descriptor.type = static_cast<std::uint8_t>(type);
    descriptor.reduction = static_cast<std::uint8_t>(reduction);
    descriptor.root = root;
    descriptor.count = count;
  }

  ElementType type() const { return static_cast<ElementType>(descriptor.type); }
  Reduction reduction() const { return static_cast<Reduction>(descriptor.reduction); }
  std::string name() const {
    return number == 0 ? "forming the group" : fmt::format("collective {} ({})", number, text(descriptor));
  }

  static std::string text(const OpDescriptor& d) {
    static constexpr const char* kNames[] = {"?",          "barrier",        "all_reduce", "broadcast",
                                             "all_gather", "reduce_scatter", "reduce",     "gather",
                                             "scatter",    "all_to_all"};
    const char* op = kNames[d.op < std::size(kNames) ? d.op : 0];
    const auto is = [&d](CollectiveOp one) { return d.op == static_cast<std::uint8_t>(one); };
    if (is(CollectiveOp::barrier) || is(CollectiveOp::all_to_all)) return op;
    const bool reduces = is(CollectiveOp::all_reduce) || is(CollectiveOp::reduce_scatter) || is(CollectiveOp::reduce);
    std::string detail = reduces ? fmt::format("{} of {} {}", name_of(static_cast<Reduction>(d.reduction)), d.count,
                                               name_of(static_cast<ElementType>(d.type)))
                                 : fmt::format("{} bytes", d.count);
    if (d.root >= 0) {
      const bool to_root = is(CollectiveOp::reduce) || is(CollectiveOp::gather);
      detail += fmt::format(" {} rank {}", to_root ? "to" : "from", d.root);
    }
    return fmt::format("{} {}", op, detail);
  }
};

}  // namespace dtrain
