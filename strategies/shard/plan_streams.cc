#include "strategies/shard/plan_streams.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace dtrain {

PlanStreams::PlanStreams(at::Device device, std::size_t events) : device_(device) {
  if (device.is_cpu()) return;
  // What others wait for comes first where streams compete.
  const c10::impl::VirtualGuardImpl guard(device.type());
  gather_ = guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  reduce_ = guard.getStreamFromGlobalPool(device, /*isHighPriority=*/true);
  events_.reserve(events);
  for (std::size_t i = 0; i < events; ++i) events_.emplace_back(device.type());
}

PlanStreams::~PlanStreams() {
  if (!are_there()) return;
  try {
    for (const c10::Stream& side : {*gather_, *reduce_}) {
      c10::Event done(device_.type());
      done.record(side);
      done.block(current());
    }
  } catch (const std::exception& /*error*/) {
    // The device is gone, or the process ends.
  }
}

c10::Stream PlanStreams::current() const { return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_); }

c10::Stream PlanStreams::stream_of(UnshardCore::Stream stream) const {
  if (stream == UnshardCore::Stream::compute) return current();
  return stream == UnshardCore::Stream::gather ? *gather_ : *reduce_;
}

void PlanStreams::carry_out(const UnshardCore::Action& action, const std::function<void()>& act) {
  const c10::Stream its = stream_of(action.stream);
  if (action.waits != UnshardCore::kNoEvent) events_[action.waits].block(its);
  {
    const c10::StreamGuard here(its);
    act();
  }
  if (action.records != UnshardCore::kNoEvent) events_[action.records].record(its);
}

}  // namespace dtrain
