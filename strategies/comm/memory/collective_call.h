#pragma once
// One collective that a group carries out: what the program called. The other ranks compare it with what they called,
// and messages to the user name it.
#include <fmt/format.h>

#include <iterator>
#include <string>

#include "strategies/comm/base/call_origin.h"
#include "strategies/comm/kernels/element.h"
#include "strategies/comm/memory/shm_wait.h"

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

struct CollectiveCall {
  OpDescriptor descriptor;
  CallOrigin origin = CallOrigin::current();  // told and not compared: a rank that joins meets others' steps
  std::chrono::milliseconds timeout;
  ShmWait::Limit limit;
  std::uint64_t number;  // counts the group's collectives from 1; 0 while the group forms

  CollectiveCall(std::uint64_t nth, CollectiveOp op, std::size_t count, ElementType type, Reduction reduction, int root,
                 std::chrono::milliseconds time)
      : timeout(time), limit(time), number(nth) {
    descriptor.op = static_cast<std::uint8_t>(op);
    descriptor.type = static_cast<std::uint8_t>(type);
    descriptor.reduction = static_cast<std::uint8_t>(reduction);
    descriptor.root = root;
    descriptor.count = count;
  }

  // What a group does while it forms, as a call.
  static CollectiveCall forming(ShmWait::Deadline deadline) {
    CollectiveCall call(0, CollectiveOp::barrier, 0, ElementType::u8, Reduction::sum, -1, {});
    call.limit = ShmWait::Limit(deadline);
    return call;
  }

  ElementType type() const { return static_cast<ElementType>(descriptor.type); }
  Reduction reduction() const { return static_cast<Reduction>(descriptor.reduction); }
  // "all_reduce".
  const char* operation() const { return operation_of(descriptor); }
  // "collective 3 (all_reduce sum of 4 float32)", with its origin behind.
  std::string name() const {
    if (number == 0) return "forming the group";
    const std::string from = origin.text();
    return fmt::format("collective {} ({}{}{})", number, text(descriptor), from.empty() ? "" : "; ", from);
  }

  static const char* operation_of(const OpDescriptor& d) {
    static constexpr const char* kNames[] = {"?",          "barrier",        "all_reduce", "broadcast",
                                             "all_gather", "reduce_scatter", "reduce",     "gather",
                                             "scatter",    "all_to_all"};
    return kNames[d.op < std::size(kNames) ? d.op : 0];
  }

  // "all_reduce sum of 4 float32 (Ddp backward, bucket 1 of 3)".
  static std::string text(const OpDescriptor& d, const CallOrigin& from) {
    const std::string origin = from.text();
    return origin.empty() ? text(d) : fmt::format("{} ({})", text(d), origin);
  }
  std::string text() const { return text(descriptor, origin); }

  // "all_reduce sum of 4 float32".
  static std::string text(const OpDescriptor& d) {
    const char* op = operation_of(d);
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
