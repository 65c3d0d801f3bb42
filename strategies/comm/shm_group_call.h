#pragma once
// One collective of a group in progress: what it is, for the other ranks to compare with and for messages.
#include <fmt/format.h>

#include <iterator>
#include <string>

#include "strategies/comm/shm_group.h"

namespace dtrain {

struct ShmGroup::Call {
  OpDescriptor descriptor;
  ShmWait::Deadline deadline;
  std::uint64_t number;

  Call(ShmGroup& group, Op op, std::size_t count, ElementType type, Reduction reduction, int root, Timeout timeout)
      : deadline(ShmWait::after(timeout)), number(++group.operations_) {
    descriptor.op = static_cast<std::uint8_t>(op);
    descriptor.type = static_cast<std::uint8_t>(type);
    descriptor.reduction = static_cast<std::uint8_t>(reduction);
    descriptor.root = root;
    descriptor.count = count;
  }

  ElementType type() const { return static_cast<ElementType>(descriptor.type); }
  Reduction reduction() const { return static_cast<Reduction>(descriptor.reduction); }
  std::string name() const { return fmt::format("collective {} ({})", number, text(descriptor)); }

  static std::string text(const OpDescriptor& d) {
    static constexpr const char* kNames[] = {"?",          "barrier",        "all_reduce", "broadcast",
                                             "all_gather", "reduce_scatter", "reduce",     "gather",
                                             "scatter",    "all_to_all"};
    const char* op = kNames[d.op < std::size(kNames) ? d.op : 0];
    const auto is = [&d](Op one) { return d.op == static_cast<std::uint8_t>(one); };
    if (is(Op::barrier) || is(Op::all_to_all)) return op;
    const bool reduces = is(Op::all_reduce) || is(Op::reduce_scatter) || is(Op::reduce);
    std::string detail = reduces ? fmt::format("{} of {} {}", name_of(static_cast<Reduction>(d.reduction)), d.count,
                                               name_of(static_cast<ElementType>(d.type)))
                                 : fmt::format("{} bytes", d.count);
    if (d.root >= 0) detail += fmt::format(" {} rank {}", is(Op::reduce) || is(Op::gather) ? "to" : "from", d.root);
    return fmt::format("{} {}", op, detail);
  }
};

}  // namespace dtrain
