// dtrain._C: CpuBackend for torch.distributed. See dtrain/__init__.py.
//
// Python's lock (the GIL): whoever waits for other ranks here has released it, and the progress thread takes it only to
// run a callback that Python code hung on a future.
#include <fmt/format.h>
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/comm/backend/kept_memory.h"
#include "strategies/comm/backend/store_meeting.h"
#include "strategies/comm/base/interrupt.h"
#include "strategies/torch/compat.h"

namespace dtrain {
namespace {

using Milliseconds = std::chrono::milliseconds;

class PythonBackend;
using BackendPtr = c10::intrusive_ptr<PythonBackend>;
BackendPtr make_backend(const CpuBackend::StorePtr& store, int rank, int size, CpuBackend::Setup setup);

// Python may drop it with the lock held while the progress thread waits for that, in a callback.
class PythonBackend final : public CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  ~PythonBackend() override {
    if (!Py_IsInitialized() || !PyGILState_Check()) return;
    const py::gil_scoped_release unlocked;
    leave();
  }

 protected:
  c10::intrusive_ptr<CpuBackend> another(const StorePtr& store, int rank, int size, Setup setup) const override {
    return make_backend(store, rank, size, std::move(setup));
  }
};

// All that live, for leave_all. Under Python's lock.
std::vector<c10::weak_intrusive_ptr<PythonBackend>>& backends() {
  static auto* all = new std::vector<c10::weak_intrusive_ptr<PythonBackend>>;
  return *all;
}

BackendPtr join(const CpuBackend::StorePtr& store, int rank, int size, CpuBackend::Setup setup) {
  std::optional<py::gil_scoped_release> unlocked;
  if (PyGILState_Check()) unlocked.emplace();
  try {
    // The same prefix comes again where a program destroys its groups and forms new ones, and in the next round of a
    // launcher whose store outlives a round.
    return CpuBackend::join<PythonBackend>(store, rank, size, std::move(setup));
  } catch (const CollectiveError&) {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(
        fmt::format("dtrain: rank {} of {} could not join the group: {}", rank, size, short_reason(error)));
  }
}

BackendPtr make_backend(const CpuBackend::StorePtr& store, int rank, int size, CpuBackend::Setup setup) {
  BackendPtr backend = join(store, rank, size, std::move(setup));
  const py::gil_scoped_acquire locked;
  std::erase_if(backends(), [](const auto& known) { return known.expired(); });
  backends().emplace_back(backend);
  return backend;
}

// What torch.distributed calls for each group that this process is in. `name`, and `ranks` of the job that are in it:
// messages speak of those; `later`: it forms with its first reconfigure().
c10::intrusive_ptr<c10d::Backend> create_backend(const CpuBackend::StorePtr& store, int rank, int size,
                                                 Milliseconds timeout, const std::string& name,
                                                 const std::vector<std::uint64_t>& ranks, bool later) {
  CpuBackend::OptionsPtr options = CpuBackend::options_with(timeout);
  options->group_name = name;
  options->global_ranks_in_group = ranks;
  form_later(*options, later);
  return make_backend(store, rank, size, {options, RankNames{name, {ranks.begin(), ranks.end()}}});
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

// For dtrain/_reform.py. `form` has the store of the world's keys, this rank, the ranks, and how many are on this node.
void meet_survivors(SurvivorsInStore& survivors, Milliseconds timeout, int node, const py::function& form) {
  const py::gil_scoped_release unlocked;
  survivors.meet(timeout, [&](const SurvivorsInStore::StorePtr& keys) {
    const py::gil_scoped_acquire locked;
    form(keys, survivors.rank(), survivors.world().members.size(), survivors.world().local_ranks(node).size());
  });
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
  // What get_backend gives, with torch's methods. This one of them is for all types what it says; torch's asks for what
  // its Reducer wants.
  py::class_<dtrain::PythonBackend, dtrain::BackendPtr, c10d::Backend>(m, "Backend")
      .def(
          "allocate_tensor",
          [](dtrain::PythonBackend& backend, std::int64_t size, at::ScalarType dtype, const at::Device& device) {
            return backend.empty_shared(size, at::dtype(dtype).device(device));
          },
          py::arg("size"), py::kw_only(), py::arg("dtype"), py::arg("device"),
          py::call_guard<py::gil_scoped_release>());
  py::class_<dtrain::SurvivorsInStore>(m, "Survivors")
      .def(py::init(
          [](const dtrain::CpuBackend::StorePtr& job, const std::string& member, int node, int local_rank, int ranks) {
            return std::make_unique<dtrain::SurvivorsInStore>(job, dtrain::Member{member, node, local_rank}, ranks);
          }))
      .def("meet", &dtrain::meet_survivors)
      .def("joiners_wait", &dtrain::SurvivorsInStore::joiners_wait, py::call_guard<py::gil_scoped_release>());
  m.def("create_backend", &dtrain::create_backend);
  m.def("leave_all", &dtrain::leave_all);
  m.def("keep_freed_memory", &dtrain::keep_freed_memory);
  dtrain::set_interrupt_check(&dtrain::check_signals);
}
