// Saves and loads a state of MIB megabytes by all ranks, beside raw writes and reads of as many bytes: checkpoint_bench
// FOLDER MIB RUNS. Rank 0 prints a line for each run and kind: the name, and the seconds of the slowest rank.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "dtrain/dtrain.h"

namespace {

constexpr std::int64_t kTensorBytes = std::int64_t{16} << 20;

dtrain::CheckpointState make_state(const dtrain::Session& session, std::int64_t mib) {
  dtrain::CheckpointState state;
  const std::int64_t elements = kTensorBytes / 4;
  for (std::int64_t i = 0; i < (mib << 20) / kTensorBytes; ++i) {
    const std::int64_t begin = elements * session.rank() / session.world_size();
    const std::int64_t end = elements * (session.rank() + 1) / session.world_size();
    state.model.push_back(
        {fmt::format("layers.{}.weight", i), at::kFloat, {2048, elements / 2048}, begin, torch::rand({end - begin})});
  }
  return state;
}

// Seconds until the slowest rank has done it.
void measure(dtrain::Session& session, const char* name, const std::function<void()>& call) {
  session.barrier();
  const auto begin = std::chrono::steady_clock::now();
  call();
  torch::Tensor seconds =
      torch::tensor(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), at::kDouble);
  session.all_reduce(seconds, c10d::ReduceOp::MAX);
  if (session.is_first()) std::printf("%s %.4f\n", name, seconds.item<double>());
  std::fflush(stdout);
}

void write_raw(const std::string& path, const dtrain::CheckpointState& state) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  for (const dtrain::StatePiece& piece : state.model)
    if (::write(file, piece.values.const_data_ptr(), piece.values.nbytes()) !=
        static_cast<ssize_t>(piece.values.nbytes()))
      throw std::runtime_error("a raw write was cut");
  if (::fsync(file) != 0) throw std::runtime_error("fsync failed");
  ::close(file);
}

void read_raw(const std::string& path, dtrain::CheckpointState& state) {
  const int file = ::open(path.c_str(), O_RDONLY);
  for (dtrain::StatePiece& piece : state.model)
    if (::read(file, piece.values.mutable_data_ptr(), piece.values.nbytes()) !=
        static_cast<ssize_t>(piece.values.nbytes()))
      throw std::runtime_error("a raw read was cut");
  ::close(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  auto session = dtrain::init();
  const std::string folder = argv[1];
  auto state = make_state(session, std::stoll(argv[2]));
  // The end of one waits for its removal of the step before, which would take a CPU from what is measured next.
  const auto checkpoints = [&] { return dtrain::Checkpoints(session.world(), folder + "/steps", {.keep_last = 1}); };
  const std::string raw = fmt::format("{}/raw.{}", folder, session.rank());
  for (int run = 0; run < std::stoi(argv[3]); ++run) {
    measure(session, "raw_write", [&] { write_raw(raw, state); });
    measure(session, "raw_read", [&] { read_raw(raw, state); });
    std::filesystem::remove(raw);
    state.step = 2 * run;
    {
      dtrain::Checkpoints saving = checkpoints();
      measure(session, "save", [&] { saving.save(state); });
    }
    dtrain::Checkpoints others = checkpoints();
    measure(session, "load", [&] { others.load(state, {.verify = false}); });
    measure(session, "load_verify", [&] { others.load(state); });
    state.step = 2 * run + 1;
    measure(session, "async_stall", [&] { others.save_async(state); });
    measure(session, "async_rest", [&] { others.wait(); });
  }
  session.shutdown();
}
