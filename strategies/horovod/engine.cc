// See engine.h.
#include "strategies/horovod/engine.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <pthread.h>

#include "strategies/collectives/collectives.h"
#include "strategies/collectives/texts.h"
#include "strategies/comm/base/call_origin.h"
#include "strategies/comm/base/own_process.h"
#include "strategies/comm/blame/consequence.h"
#include "strategies/horovod/fusion_plan.h"
#include "strategies/torch/compat.h"

namespace dtrain::hvd {
namespace {

using Clock = std::chrono::steady_clock;

// A rank with nothing to reduce lets the others wait so long: they cannot reduce anything without it, and only news of
// stalls, joins and ends are late.
constexpr std::chrono::milliseconds kIdle{100};
constexpr std::chrono::seconds kLastCycle{10};  // of all ranks, when one ends its context

Settings of_rank_0(const c10::intrusive_ptr<c10d::ProcessGroup>& group, Settings settings) {
  const at::Tensor numbers =
      at::tensor({settings.fusion_threshold, static_cast<std::int64_t>(settings.cycle_time.count()),
                  settings.cache_capacity, static_cast<std::int64_t>(settings.stall_warning.count()),
                  static_cast<std::int64_t>(settings.stall_failure.count())},
                 at::kLong);
  const CallsOf its(CallOrigin::Kind::hvd_context);
  broadcast(group, numbers, 0);
  const auto* number = numbers.const_data_ptr<std::int64_t>();
  settings.fusion_threshold = number[0];
  settings.cycle_time = std::chrono::microseconds{number[1]};
  settings.cache_capacity = number[2];
  settings.stall_warning = std::chrono::milliseconds{number[3]};
  settings.stall_failure = std::chrono::milliseconds{number[4]};
  return settings;
}

// A rank may be the first one of several groups, and a host have those of several.
std::unique_ptr<Timeline> timeline_of(const Settings& settings, const FormedGroup& group) {
  if (settings.timeline.empty() || group.group->getRank() != 0) return nullptr;
  const bool of_all = group.names.ranks.empty();
  return std::make_unique<Timeline>(of_all ? settings.timeline : settings.timeline + '.' + group.group->getGroupName());
}

Negotiation::Limits limits_of(const Settings& settings) {
  return {static_cast<std::size_t>(settings.cache_capacity), settings.stall_warning, settings.stall_failure};
}

// The same error, with the tensor that its caller waits for.
std::exception_ptr naming(const std::string& tensor, const std::exception_ptr& error) {
  const auto said = [&tensor](std::string why) {
    constexpr std::string_view kOurs = "dtrain: ";
    if (why.starts_with(kOurs)) why.erase(0, kOurs.size());
    return fmt::format("dtrain: '{}' was not reduced: {}", tensor, why);
  };
  try {
    std::rethrow_exception(error);
  } catch (const CollectiveError& e) {
    return std::make_exception_ptr(CollectiveError(e.kind(), e.rank(), said(e.what())));
  } catch (const std::exception& e) {
    return std::make_exception_ptr(std::runtime_error(said(short_reason(e))));
  }
}

}  // namespace

void Handle::wait() const {
  const auto& arrival = future_.get();
  if (!arrival->copied_out) return;
  const at::Device device = arrival->copied_out->device();
  arrival->copied_out->block(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

bool Handle::done() const {
  if (future_.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return false;
  try {
    const auto& arrival = future_.get();
    return !arrival->copied_out || arrival->copied_out->query();
  } catch (...) {  // wait() tells
    return true;
  }
}

Engine::Engine(const FormedGroup& group, Settings settings)
    : process_(own_process()),
      group_(group),
      settings_(of_rank_0(group.group, std::move(settings))),
      timeline_(timeline_of(settings_, group)),
      fusion_(group.group, timeline_.get()),
      core_(group.group->getRank(), group.group->getSize(), limits_of(settings_), group.names),
      thread_([this] { loop(); }) {}

Engine::~Engine() {
  {
    std::unique_lock lock(mutex_);
    leaves_ = true;
    core_.leave();
    wake_.notify_all();
    if (!changed_.wait_for(lock, kLastCycle, [this] { return ended_; })) {
      lock.unlock();
      group_.group->abort();
    }
  }
  thread_.join();
}

bool Engine::in_forked_child() const { return own_process() != process_; }

std::vector<Handle> Engine::submit(const std::vector<at::Tensor>& tensors, const std::vector<std::string>& names,
                                   const ReduceOptions& options, const std::string& group, std::int64_t members) {
  TORCH_CHECK(!in_forked_child(), "dtrain: an hvd::Context does not work in a process forked from rank ",
              group_.names.of(rank()));
  std::vector<std::unique_ptr<Reduction>> reductions;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    reductions.push_back(make_reduction(tensors[i], names[i], options, ranks()));
    reductions.back()->request.group = group;
    reductions.back()->request.members = members;
  }
  std::vector<Handle> handles;
  const std::lock_guard lock(mutex_);
  for (const auto& reduction : reductions) {
    const std::string& name = reduction->request.name;
    if (over_) std::rethrow_exception(naming(name, over_));
    TORCH_CHECK(!joins_, "dtrain: '", name, "' was submitted while this rank joins");
    TORCH_CHECK(!pending_.contains(name), "dtrain: '", name, "' was submitted again before it was reduced");
    handles.push_back(Handle(reduction->done.get_future().share()));
  }
  const bool was_idle = core_.idle();
  for (auto& reduction : reductions) {
    reduction->submitted = Clock::now();
    core_.submit(reduction->request, reduction->submitted);
    const std::string name = reduction->request.name;
    pending_.emplace(name, std::move(reduction));
  }
  if (was_idle || core_.all_here()) wake_.notify_all();  // else the thread knows that there is something to do
  return handles;
}

int Engine::join() {
  TORCH_CHECK(!in_forked_child(), "dtrain: an hvd::Context does not work in a process forked from rank ",
              group_.names.of(rank()));
  std::unique_lock lock(mutex_);
  TORCH_CHECK(pending_.empty(), "dtrain: hvd::Context::join was called while '", pending_.begin()->first,
              "' is still being reduced");
  TORCH_CHECK(!joins_, "dtrain: hvd::Context::join was called within hvd::Context::join");
  joined_last_.reset();
  joins_ = true;
  core_.join();
  wake_.notify_all();
  changed_.wait(lock, [this] { return joined_last_ || over_; });
  joins_ = false;
  if (!joined_last_) std::rethrow_exception(over_);
  return *joined_last_;
}

void Engine::loop() {
  ::pthread_setname_np(::pthread_self(), "dtrain-hvd");
  const CallsOf its(CallOrigin::Kind::hvd_context);
  try {
    // Else it would be the first GPU, on which each rank of the host would take memory.
    c10::impl::VirtualGuardImpl(group_.device.type()).setDevice(group_.device);
    while (cycle()) {
    }
    barrier(group_.group);  // nobody leaves while another reads what it said last
    group_.shutdown();
  } catch (...) {
    group_.group->abort();
    end(std::current_exception());
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

bool Engine::cycle() {
  wait_for_work();
  const Negotiation::Outcome outcome = negotiate();
  finish(outcome);
  if (outcome.failure || !outcome.left.empty()) return false;
  reduce(outcome.ready);
  return true;
}

void Engine::wait_for_work() {
  std::unique_lock lock(mutex_);
  wake_.wait_for(lock, kIdle, [this] { return leaves_ || joins_ || !core_.idle(); });
  wake_.wait_until(lock, last_cycle_ + settings_.cycle_time, [this] { return leaves_ || core_.all_here(); });
  last_cycle_ = Clock::now();
}

Negotiation::Outcome Engine::negotiate() {
  std::vector<std::uint64_t> words;
  {
    const std::lock_guard lock(mutex_);
    words = core_.words(last_cycle_);
  }
  all_reduce(group_.group, at::from_blob(words.data(), {static_cast<std::int64_t>(words.size())}, at::kLong),
             c10d::ReduceOp::BAND);
  std::unique_lock lock(mutex_);
  if (core_.absorb_words(words)) {
    const std::string own = serialize(core_.requests());
    lock.unlock();
    std::vector<std::vector<Asked>> asked;
    for (const std::string& text : all_gather_texts(group_.group, own)) asked.push_back(parse_requests(text));
    lock.lock();
    core_.absorb_requests(asked);
  }
  if (const auto line = core_.stalled(); line && rank() == 0) fmt::print(stderr, "dtrain: hvd: {}\n", *line);
  return core_.outcome();
}

void Engine::reduce(const std::vector<Request>& ready) {
  const Negotiation::Moment agreed = Clock::now();
  std::vector<std::unique_ptr<Reduction>> zeros;
  std::vector<Reduction*> reductions;
  {
    const std::lock_guard lock(mutex_);
    for (const Request& request : ready) {
      const auto own = pending_.find(request.name);
      if (own == pending_.end()) zeros.push_back(make_zeros(request, group_.device));
      reductions.push_back(own == pending_.end() ? zeros.back().get() : own->second.get());
      if (timeline_ && own != pending_.end()) timeline_->add(request.name, "NEGOTIATE", own->second->submitted, agreed);
    }
  }
  for (const std::vector<std::size_t>& part : plan_fusion(ready, settings_.fusion_threshold)) {
    std::vector<Reduction*> members;
    for (const std::size_t i : part) members.push_back(reductions[i]);
    if (timeline_) {
      for (const Reduction* each : members) timeline_->add(each->request.name, "QUEUE", agreed, Clock::now());
    }
    arrive(members, fusion_.reduce(members));
  }
}

// The name is free before anybody knows of the result. The last is told first: whoever waits for one after the other is
// woken once.
void Engine::arrive(const std::vector<Reduction*>& members, const std::shared_ptr<const Handle::Arrival>& arrival) {
  std::vector<std::unique_ptr<Reduction>> own;
  {
    const std::lock_guard lock(mutex_);
    for (const Reduction* each : members) {
      const auto found = pending_.find(each->request.name);
      if (found == pending_.end()) continue;
      own.push_back(std::move(found->second));
      pending_.erase(found);
    }
  }
  for (auto each = own.rbegin(); each != own.rend(); ++each) (*each)->done.set_value(arrival);
}

void Engine::finish(const Negotiation::Outcome& outcome) {
  if (outcome.failure) return end(std::make_exception_ptr(*outcome.failure));
  if (!outcome.left.empty()) {
    const int rank = group_.names.of(outcome.left.front());
    return end(std::make_exception_ptr(
        CollectiveError(FailureKind::peer_left, rank,
                        fmt::format("dtrain: {}rank {} ended its hvd::Context", group_.names.prefix(), rank))));
  }
  if (!outcome.all_joined) return;
  const std::lock_guard lock(mutex_);
  joined_last_ = outcome.all_joined;
  changed_.notify_all();
}

// From now on every tensor fails.
void Engine::end(const std::exception_ptr& error) {
  told_to_launcher(error, group_.names, ranks());
  std::map<std::string, std::unique_ptr<Reduction>> pending;
  {
    const std::lock_guard lock(mutex_);
    if (!over_) over_ = error;
    pending.swap(pending_);
    changed_.notify_all();
  }
  for (const auto& [name, reduction] : pending) reduction->done.set_exception(naming(name, error));
}

}  // namespace dtrain::hvd
