// dtrain._C: ShmBackend for torch.distributed. See dtrain/__init__.py.
//
// Python's lock (the GIL): whoever waits for other ranks here has released it, and the progress thread takes it only to
// run a callback that Python code hung on a future.
#include <fmt/format.h>
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "strategies/comm/interrupt.h"
#include "strategies/comm/kept_memory.h"
#include "strategies/comm/shm_backend.h"
#include "strategies/comm/store_meeting.h"
#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

using Milliseconds = std::chrono::milliseconds;

// Python may drop it with the lock held while the progress thread waits for that, in a callback.
class PythonBackend final : public ShmBackend {
 public:
  using ShmBackend::ShmBackend;
  ~PythonBackend() override {
    if (!Py_IsInitialized() || !PyGILState_Check()) return;
    const py::gil_scoped_release unlocked;
    leave();
  }
};

using BackendPtr = c10::intrusive_ptr<PythonBackend>;

// All that live, for leave_all. Under Python's lock.
std::vector<c10::weak_intrusive_ptr<PythonBackend>>& backends() {
  static auto* all = new std::vector<c10::weak_intrusive_ptr<PythonBackend>>;
  return *all;
}

BackendPtr join(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, Milliseconds timeout) {
  try {
    // The same prefix comes again where a program destroys its groups and forms new ones, and in the next round of a
    // launcher whose store outlives a round.
    return c10::make_intrusive<PythonBackend>(fresh_keys(store, rank, size), rank, size, timeout);
  } catch (const CollectiveError&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("dtrain: rank {} of {} could not join the group: {}", rank, size, short_reason(error)));
  }
}

// What torch.distributed calls for each group that this process is in.
c10::intrusive_ptr<c10d::Backend> create_backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                 Milliseconds timeout) {
  BackendPtr backend;
  {
    const py::gil_scoped_release unlocked;
    backend = join(store, rank, size, timeout);
  }
  std::erase_if(backends(), [](const auto& known) { return known.expired(); });
  backends().emplace_back(backend);
  return backend;
}

// No thread of ours may run when the interpreter goes: one that then asks for its lock never comes back.
void leave_all() {
  std::vector<BackendPtr> left;
  for (const auto& known : backends()) {
    if (BackendPtr backend = known.lock()) left.push_back(std::move(backend));
  }
  const py::gil_scoped_release unlocked;
  for (const BackendPtr& backend : left) backend->leave();
}

// Ctrl-C: Python's handler only makes a note, which this turns into KeyboardInterrupt.
void check_signals() {
  if (!Py_IsInitialized() || PyGILState_Check()) return;
  const py::gil_scoped_acquire locked;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

}  // namespace
}  // namespace dtrain

PYBIND11_MODULE(_C, m) {
  m.def("create_backend", &dtrain::create_backend);
  m.def("leave_all", &dtrain::leave_all);
  m.def("keep_freed_memory", &dtrain::keep_freed_memory);
  dtrain::set_interrupt_check(&dtrain::check_signals);
}
