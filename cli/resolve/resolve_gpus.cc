// How many workers GPUs ask for, and a GPU of its own for each of them.
#include <fmt/format.h>

#include <algorithm>

#include "cli/base/parse_value.h"
#include "cli/base/text.h"
#include "cli/base/usage_error.h"
#include "cli/options/take_value.h"
#include "cli/resolve/resolve_parts.h"
#include "rendezvous/base/counted.h"

namespace dtrain::cli {
namespace {

bool other_accelerator(const std::string& name) {
  constexpr const char* kKnown[] = {"xpu", "mps", "hpu", "npu", "mlu", "mtia", "musa", "xla", "tpu", "privateuseone"};
  return std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
}

Result<int> count_gpus(const Given& given, bool one_each, Plan& plan) {
  GpuInventory inventory = given.host.gpus();
  auto visible = visible_gpus(inventory, given.host.env);
  int usable = usable_gpus(visible), named = static_cast<int>(visible.size());
  if (one_each) return named;
  if (named > usable && visible[0].mig)
    plan.notes.push_back(
        "a process can use only one MIG instance: --virtual-local-rank gives every worker one of its own");
  return usable;
}

// What is listed for nothing, so that a typo does not go unseen.
void say_if_shared(const Given& given, int workers, Plan& plan) {
  if (workers == 1 || given.raw.as_torchrun || given.options.text(FlagId::use_gpu) == "no") return;
  int gpus = static_cast<int>(visible_gpus(given.host.listed_gpus(), given.host.env).size());
  if (gpus > 0 && workers > gpus)
    plan.notes.push_back(fmt::format("{} workers share {}", workers, counted(gpus, "GPU")));
}

}  // namespace

int workers_by_gpus(const Host& host, bool use_gpu, bool one_each) {
  if (!use_gpu) return 1;
  const auto visible = visible_gpus(host.gpus(), host.env);
  return std::max(1, one_each ? static_cast<int>(visible.size()) : usable_gpus(visible));
}

Result<int> count_workers(const Given& given, int most, Plan& plan) {
  const std::string& text = given.options.text(FlagId::nproc);
  auto one_each = given.options.on(FlagId::virtual_local_rank);
  if (!one_each) return one_each.error();
  if (text == "cpu") return given.host.cpus;
  const bool without = given.options.text(FlagId::use_gpu) == "no";
  if (text == "auto" && without) return given.host.cpus;
  if (text == "gpu" || text == "auto") {
    auto gpus = count_gpus(given, *one_each, plan);
    if (!gpus || *gpus > 0) return gpus;
    if (text == "auto") return given.host.cpus;
    return given.options.blame(FlagId::nproc, usage_error("no GPU is visible here (CUDA_VISIBLE_DEVICES, NVIDIA or AMD "
                                                          "driver; dtrain doctor looks); use auto or a number"));
  }
  if (other_accelerator(text))
    return given.options.blame(
        FlagId::nproc,
        usage_error("dtrain counts only NVIDIA and AMD GPUs (gpu) and cores (cpu); give a number instead"));
  auto count = parse_python_int(text, 1, most);
  if (!count) return given.options.blame(FlagId::nproc, usage_error(count.error().message + ", or auto, cpu, gpu"));
  say_if_shared(given, *count, plan);
  return *count;
}

// Whether CUDA or HIP find a GPU is theirs to say; an empty list of devices is none.
Result<void> resolve_use_gpu(const Given& given, Plan& plan) {
  enum class Use { may, must, must_not } use = Use::may;
  if (auto done = take_choice(given.options, FlagId::use_gpu, use,
                              {{"auto", Use::may}, {"yes", Use::must}, {"no", Use::must_not}});
      !done || use == Use::may)
    return done;
  const bool own_device = given.options.text(FlagId::virtual_local_rank) == "1";
  if (use == Use::must_not) {
    if (given.options.text(FlagId::nproc) == "gpu" || own_device)
      return given.options.blame(
          FlagId::use_gpu,
          usage_error(fmt::format("{} needs GPUs; leave out one of the two",
                                  given.options[own_device ? FlagId::virtual_local_rank : FlagId::nproc].where)));
    for (const char* name : {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"})
      plan.spec.extra_env.emplace_back(name, "");
    return {};
  }
  auto usable = count_gpus(given, own_device, plan);
  if (!usable) return usable.error();
  const int workers = workers_of_node(plan.spec);
  if (*usable >= workers) return {};
  return given.options.blame(
      FlagId::use_gpu,
      {ErrorKind::unavailable, fmt::format("this node has {} for {}; correct --nproc, or say no",
                                           counted(*usable, "usable GPU"), counted(workers, "worker"))});
}

// torchrun's rule: the entries of HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES in their order, else the local ranks.
Result<void> resolve_own_device(const Given& given, Plan& plan) {
  bool on = false;
  if (auto done = take_switch(given.options, FlagId::virtual_local_rank, on); !done || !on) return done;
  const auto& env = given.host.env;
  bool hip = !given.host.variable("HIP_VISIBLE_DEVICES").empty();
  const char* name = hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES";
  int workers = plan.spec.nproc_per_node;
  std::vector<std::string> devices;
  if (auto list = env.find(name); list != env.end()) {
    devices = split(list->second, ',');
    for (std::string& device : devices) device = trimmed(device);
    if (devices.size() < static_cast<std::size_t>(workers))
      return usage_error(fmt::format("--virtual-local-rank: {} workers, but {}={} has fewer entries", workers, name,
                                     printable(list->second)));
  } else {
    for (int rank = 0; rank < workers; ++rank) devices.push_back(std::to_string(rank));
  }
  plan.spec.own_devices = {devices, hip};
  return {};
}

}  // namespace dtrain::cli
