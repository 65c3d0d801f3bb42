// Options, groups that come from others, and the barrier that names who is missing; see cpu_backend.h.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/comm/backend/cpu_work.h"
#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/groups/monitored_barrier.h"

namespace dtrain {
namespace {

constexpr const char* kName = "dtrain";

#if DTRAIN_TORCH_AT_LEAST(2, 15)
// "dtrain:", the rank, who it is and its last reconfigure(): in the order of the ranks.
std::string handle_of(int rank, std::uint64_t identity, std::int64_t uuid) {
  return fmt::format("{}:{:08}:{:016x}:{}", kName, rank, identity, uuid);
}

std::vector<std::string> in_order(const c10d::ReconfigureOptions& options) {
  std::vector<std::string> handles;
  if (const auto* list = std::get_if<std::vector<std::string>>(&options.handles)) {
    handles = *list;
  } else {
    const auto& unordered = std::get<std::unordered_set<std::string>>(options.handles);
    handles.assign(unordered.begin(), unordered.end());
    std::sort(handles.begin(), handles.end());
  }
  for (const std::string& handle : handles)
    TORCH_CHECK(handle.starts_with(fmt::format("{}:", kName)), "dtrain: '", handle, "' is not a handle of ", kName);
  TORCH_CHECK(std::set(handles.begin(), handles.end()).size() == handles.size(),
              "dtrain: reconfigure() was given the same handle twice");
  return handles;
}
#endif

}  // namespace

CpuBackend::OptionsPtr CpuBackend::options_with(Timeout timeout) {
  return c10::make_intrusive<Options>(kName, timeout);
}

// A program may write to it at any time.
CpuBackend::Timeout CpuBackend::default_timeout() const { return std::atomic_ref(options_->timeout).load(); }

CpuBackend::Timeout CpuBackend::limited(Timeout timeout) const {
  return std::min<Timeout>(timeout > Timeout::zero() ? timeout : default_timeout(), kLongestTimeout);
}

void CpuBackend::setTimeout(Timeout timeout) {
  TORCH_CHECK(timeout > Timeout::zero(), "dtrain: a timeout must be above 0 ms, not ", timeout.count());
  std::atomic_ref(options_->timeout).store(timeout);
}

void CpuBackend::check_formed() const {
  TORCH_CHECK(formed_, "dtrain: the group has not formed yet; call reconfigure()");
}

void CpuBackend::monitoredBarrier(const c10d::BarrierOptions& options, bool /*wait_all_ranks*/) {
  if (getSize() == 1) return;
  const std::shared_ptr<CommGroup> group = group_for_message();
  FlightNotes::Ticket flight;
  {
    const std::lock_guard lock(mutex_);
    flight = note_call(c10d::OpType::BARRIER, {}, {options.timeout, false}, true);
  }
  const CarryingOut here;
  std::exception_ptr error;
  try {
    monitored_barrier(*group, getRank(), getSize(), limited(options.timeout));
  } catch (...) {
    error = std::current_exception();
  }
  error = ended(flight, error);
  if (error) std::rethrow_exception(error);
}

// Of a group of this one's ranks, which messages call by the job's numbers.
CpuBackend::Setup CpuBackend::setup_for(const std::vector<int>& ranks, const OptionsPtr& options) const {
  Setup setup{options ? c10::make_intrusive<Options>(*options) : options_with(default_timeout())};
  const auto& own = options_->global_ranks_in_group;
  auto& jobs = setup.options->global_ranks_in_group;
  jobs.clear();
  for (const int rank : ranks)
    jobs.push_back(own.empty() ? static_cast<std::uint64_t>(names_.of(rank)) : own[static_cast<std::size_t>(rank)]);
  setup.names = {setup.options->group_name, std::vector<int>(jobs.begin(), jobs.end())};
  return setup;
}

c10::intrusive_ptr<c10d::Backend> CpuBackend::split(const StorePtr& store, const std::vector<int>& ranks,
                                                    const OptionsPtr& options) {
  for (const int rank : ranks)
    TORCH_CHECK(rank >= 0 && rank < getSize(), "dtrain: split() names rank ", rank, ", but the ranks are 0 to ",
                getSize() - 1);
  TORCH_CHECK(std::set(ranks.begin(), ranks.end()).size() == ranks.size(),
              "dtrain: split() was given the same rank twice");
  const auto own = std::find(ranks.begin(), ranks.end(), getRank());
  if (own == ranks.end()) return {};
  return further(store, static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()),
                 setup_for(ranks, options));
}

c10::intrusive_ptr<c10d::Backend> CpuBackend::merge(const StorePtr& store, const OptionsPtr& options, const int& rank,
                                                    const int& size) {
  return further(store, rank, size,
                 {options ? c10::make_intrusive<Options>(*options) : options_with(default_timeout())});
}

c10::intrusive_ptr<CpuBackend> CpuBackend::further(const StorePtr& store, int rank, int size, Setup setup) const {
  TORCH_CHECK(!in_forked_child(), "dtrain: groups do not work in a process forked from rank ", getRank());
  setup.join_timeout = setup.options->timeout;
  setup.later = store;
  // Others of this process must not wait while this rank waits in the store.
  return another(store->clone(), rank, size, std::move(setup));
}

c10::intrusive_ptr<CpuBackend> CpuBackend::another(const StorePtr& store, int rank, int size, Setup setup) const {
  return join<CpuBackend>(store, rank, size, std::move(setup));
}

#if DTRAIN_TORCH_AT_LEAST(2, 15)
c10d::ReconfigureHandle CpuBackend::get_reconfigure_handle() const { return handle_of(getRank(), identity_, uuid_); }

CpuBackend::WorkPtr CpuBackend::reconfigure(const c10d::ReconfigureOptions& options) {
  TORCH_CHECK(!in_forked_child(), "dtrain: reconfigure() does not work in a process forked from rank ", getRank());
  const std::vector<std::string> handles = in_order(options);
  const auto own = std::find(handles.begin(), handles.end(), get_reconfigure_handle());
  TORCH_CHECK(own != handles.end(), "dtrain: this rank's handle ", get_reconfigure_handle(),
              " is not one of the new group's; a handle is good for one reconfigure()");
  const Timeout timeout = limited(options.timeout.value_or(Timeout::zero()));
  dissolve();
  rank_ = static_cast<int>(own - handles.begin());
  size_ = static_cast<int>(handles.size());
  uuid_ = options.uuid;
  names_ = {};
  const auto keys =
      c10::make_intrusive<c10d::PrefixStore>(fmt::format("reconfigure/{}", options.uuid), store_->clone());
  const StorePtr fresh = fresh_keys(keys, rank_, size_, timeout);
  form(fresh, timeout);
  auto done = c10::make_intrusive<CpuWork>(rank_, c10d::OpType::UNKNOWN, Tensors{}, called_, timeout);
  done->complete(nullptr, [] {});
  return done;
}
#endif

// What is pending fails, and there is no group until the next one has formed.
void CpuBackend::dissolve() {
  std::shared_ptr<CommGroup> group;
  {
    OperationQueue::Lock lock(mutex_);
    TORCH_CHECK(!queue_->stops(), "dtrain: reconfigure() was called after the session was shut down");
    formed_ = failed_ = false;
    if (group_) group_->stop();
    queue_->await_free(lock);
    group.swap(group_);
  }
  if (flight_) flight_->end();
  if (group) group->p2p().end();
}

}  // namespace dtrain
