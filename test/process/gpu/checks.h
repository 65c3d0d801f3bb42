#pragma once
// What the cases of gpu_worker share. Each rank prints for each case "ok NAME", or "failed NAME: why".
#include <ATen/cuda/Sleep.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>

#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "dtrain/dtrain.h"

namespace dtrain::gpu_test {

class Checks {
 public:
  explicit Checks(Session& the_session) : session(the_session), device(the_session.device()) {}

  Session& session;
  const at::Device device;

  int rank() const { return session.rank(); }
  int ranks() const { return session.world_size(); }
  bool on_gpu() const { return device.is_cuda(); }
  at::TensorOptions of(at::ScalarType type) const { return at::TensorOptions(device).dtype(type); }

  void run(const std::string& name, const std::function<void()>& check) {
    std::string why;
    try {
      check();
    } catch (const c10::Error& error) {
      why = error.what_without_backtrace();
    } catch (const std::exception& error) {
      why = error.what();
    }
    for (char& c : why) c = c == '\n' ? ' ' : c;
    std::puts((why.empty() ? "ok " + name : "failed " + name + ": " + why).c_str());
    std::fflush(stdout);
    failed = failed || !why.empty();
    session.barrier();  // the next one begins on all ranks together
  }

  bool failed = false;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// `found` has these values, exactly.
inline void require_equal(const at::Tensor& found, const at::Tensor& wanted, const std::string& what) {
  const at::Tensor here = found.detach().cpu().to(at::kDouble), there = wanted.detach().cpu().to(at::kDouble);
  if (here.sizes() == there.sizes() && at::equal(here, there)) return;
  const bool alike = here.sizes() == there.sizes() && here.numel() > 0;
  throw std::runtime_error(
      fmt::format("{}: {}", what,
                  alike ? fmt::format("{} apart, {} of {} differ", (here - there).abs().max().item<double>(),
                                      (here != there).sum().item<std::int64_t>(), here.numel())
                        : "another shape"));
}

inline void require_all(const at::Tensor& found, double value, const std::string& what) {
  require_equal(found, at::full(found.sizes(), value, at::kDouble), what);
}

inline void require_near(double apart, double most, const std::string& what) {
  if (!(apart <= most)) throw std::runtime_error(fmt::format("{}: {:.2e} apart, at most {:.0e}", what, apart, most));
}

// Another stream of the device; a CPU has none.
using OtherStream = std::optional<c10::Stream>;
inline OtherStream another_stream(const at::Device& device) {
  if (device.is_cpu()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

// While it lives, that one is the current stream.
class On {
 public:
  explicit On(const OtherStream& stream) {
    if (stream) guard_.reset_stream(*stream);
  }

 private:
  c10::OptionalStreamGuard guard_;
};

// Keep the current stream busy for about so long, so that what is queued behind it is not there yet.
inline void keep_busy(const at::Device& device, int milliseconds) {
  // tidy: allow sleep, because it is the GPU's stream that is to be late
  if (device.is_cuda()) at::cuda::sleep(std::int64_t{milliseconds} * 1'500'000);
}

void check_moves(Checks& checks);
void check_streams(Checks& checks);
void check_training(Checks& checks);
// Parallel, by strategy.
void check_sharded(Checks& checks);
void check_horovod(Checks& checks);
void check_diverged(Checks& checks);
// Prints "peak BYTES", of the steps of a model of 50 MB.
void measure_memory(Session& session);
// Trains until rank `culprit` fails in this way.
int fail(const std::string& way, int culprit);

}  // namespace dtrain::gpu_test
