// Trains a small model, keeps the state of each step and notes what it has kept, for kept_state_test.py. The losses
// depend on the steps alone, not on what was restarted in between.
//
//   kept_worker FOLDER STEPS WIDTH [SAVE_EVERY]
//   kept_worker by-hand
//
// By hand: three rounds with tensors of the program's own, without dtrain::Parallel. Else each rank appends a line to
// FOLDER/kept-RANK when keep() has returned: round, step, nanoseconds of CLOCK_MONOTONIC. Rank 0 prints where a round
// begins and each step, with the bits of its loss.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>

#include "dtrain/dtrain.h"

namespace {

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(int width)
      : linear(register_module("linear", torch::nn::Linear(width, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))) {}
  torch::Tensor forward(torch::Tensor x) { return x + torch::tanh(norm(linear(x))); }
  torch::nn::Linear linear;
  torch::nn::BatchNorm1d norm;
};
DTRAIN_UNIT(Block);

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int width) {
    for (int i = 0; i < 3; ++i) blocks->push_back(Block(width));
    register_module("blocks", blocks);
  }
  torch::Tensor forward(torch::Tensor x) { return blocks->forward(x); }
  torch::nn::Sequential blocks;
};
TORCH_MODULE(Net);

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// In one write, so that a kill leaves whole lines.
void note(int file, int round, std::int64_t step) {
  char line[100];
  const int size = std::snprintf(line, sizeof line, "%d %lld %lld\n", round, static_cast<long long>(step),
                                 static_cast<long long>(now()));
  if (::write(file, line, static_cast<std::size_t>(size)) != size) throw std::runtime_error("cannot note a step");
}

double one_step(dtrain::Session& session, dtrain::Parallel<NetImpl>& model, dtrain::ShardedOptimizer& optimizer,
                std::int64_t step, int width) {
  // Data of its own for each step and rank, on any round.
  torch::manual_seed(1000 + step * 100 + session.rank());
  const torch::Tensor x = torch::randn({8, width});
  model.zero_grad();
  torch::Tensor loss = (model(x) - x.sin()).pow(2).mean();
  loss.backward();
  model.step(optimizer);
  torch::Tensor mean = loss.detach().to(torch::kDouble);
  session.all_reduce(mean, c10d::ReduceOp::AVG);
  return mean.item<double>();
}

void train(const std::string& folder, std::int64_t steps, int width, std::int64_t save_every) {
  const auto env = dtrain::parse_worker_env(dtrain::process_env());
  std::printf("rank %d is process %d in round %d\n", env.rank, static_cast<int>(::getpid()), env.round);
  std::fflush(stdout);
  auto session = dtrain::init();
  torch::set_num_threads(1);
  torch::manual_seed(1);
  dtrain::Parallel model(session, [&] { return Net(width); });
  auto optimizer = model.optimizer(dtrain::AdamW{.lr = 1e-3});
  dtrain::KeptState kept(session);
  dtrain::Checkpoints checkpoints(session.world(), folder + "/checkpoints", {.keep_last = 2, .sync = false});
  const auto loaded = model.load(checkpoints, kept, optimizer);
  const int round = session.env().round;
  std::int64_t step = loaded ? loaded->step : 0;
  if (session.is_first()) {
    if (!kept.here()) std::printf("%s\n", kept.why_not().c_str());
    for (const std::string& line : loaded ? loaded->skipped : std::vector<std::string>())
      std::printf("%s\n", line.c_str());
    if (kept.here() && session.env().state_copy_fd >= 0 && !kept.why_no_copy().empty())
      std::printf("%s\n", kept.why_no_copy().c_str());
    std::printf("round %d begins after step %lld from %s, extra '%s', of %d ranks\n", round,
                static_cast<long long>(step),
                !loaded               ? "nothing"
                : loaded->from_memory ? "memory"
                                      : "disk",
                loaded ? loaded->extra.c_str() : "", session.world_size());
  }
  const int file = ::open((folder + "/kept-" + std::to_string(session.rank())).c_str(),
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  while (step < steps) {
    const double loss = one_step(session, model, optimizer, step, width);
    ++step;
    model.keep(kept, step, optimizer, "{\"step\":" + std::to_string(step) + "}");
    note(file, round, step);
    if (save_every > 0 && step % save_every == 0) model.save(checkpoints, step, optimizer);
    if (session.is_first())
      std::printf("round %d step %lld at %lld loss %a\n", round, static_cast<long long>(step),
                  static_cast<long long>(now()), loss);
    std::fflush(stdout);
  }
  session.shutdown();
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("not so: ") + what);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const dtrain::CheckpointError& error) {
    return error.what();
  }
  return "none";
}

// Step 3 is the newest. Other tensors that are too large, or that were not kept, must not make it the older one.
void what_fails_forgets_nothing(dtrain::Session& session, dtrain::KeptState& kept, dtrain::CheckpointState& state) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 44;
  dtrain::CheckpointState huge, other;
  huge.model.push_back({"huge", torch::kFloat, {kHuge}, 0, torch::zeros({1}).expand({kHuge})});
  other.model.push_back({"other", torch::kFloat, {1}, 0, torch::zeros({1})});
  const std::function<void()> disturb[] = {[&] { error_of([&] { kept.keep(huge); }); }, [&] { kept.restore(other); }};
  for (const auto& each : disturb) {
    each();
    state.step = 4;
    if (session.rank() == 0) kept.keep(state);
    session.barrier();
    expect(kept.restore(state)->step == 3, "one rank has step 4, and both have step 3");
    session.barrier();
  }
}

dtrain::CheckpointState row_of(std::int64_t begin, const torch::Tensor& values) {
  dtrain::CheckpointState state;
  state.model.push_back({"row", torch::kFloat, {8}, begin, values});
  return state;
}

// Each rank keeps a part of a row; one of them, or both, want all of it.
void whole_from_parts(dtrain::KeptState& kept, int rank) {
  const auto short_of_one = row_of(rank * 4, torch::full({rank == 0 ? 4 : 3}, rank + 1.0F));
  const auto half = row_of(rank * 4, torch::full({4}, rank + 1.0F));
  const torch::Tensor row = torch::zeros({8});
  auto whole = row_of(0, row);
  kept.keep(short_of_one);
  const std::string missing = error_of([&] { kept.restore(whole, &short_of_one); });
  if (rank == 0) std::printf("missing: %s\n", missing.c_str());
  const dtrain::CheckpointState none;
  const std::string others = error_of([&] { kept.restore(whole, &none); });
  if (rank == 0) std::printf("others: %s\n", others.c_str());
  kept.keep(half);
  if (rank == 0) {
    expect(kept.restore(whole, &half).has_value(), "rank 0 wants all");
    expect(row.eq(torch::tensor({1, 1, 1, 1, 2, 2, 2, 2})).all().item<bool>(), "rank 0 has all");
    return;
  }
  auto own = row_of(4, row.narrow(0, 4, 4));
  expect(kept.restore(own, &half).has_value(), "rank 1 wants its half");
  expect(row.eq(torch::tensor({0, 0, 0, 0, 2, 2, 2, 2})).all().item<bool>(), "rank 1 has its half");
}

// A row of eight elements, of which each of two ranks has four; and a number that each rank has.
void by_hand() {
  auto session = dtrain::init();
  dtrain::KeptState kept(session);
  const int rank = session.rank(), round = session.env().round;
  const at::Tensor row = torch::zeros({4}), number = torch::zeros({1}, torch::kLong);
  dtrain::CheckpointState state;
  state.model.push_back({round < 2 ? "row" : "line", torch::kFloat, {8}, rank * 4, row});
  state.optimizer.push_back({"number", torch::kLong, {}, 0, number});
  const auto loaded = kept.restore(state);
  if (round == 0) {
    expect(!loaded && kept.refused().empty(), "nothing was kept, and that is no refusal");
    for (state.step = 1; state.step <= 3; ++state.step) {
      row.fill_(double(state.step) + rank);
      number.fill_(100 * state.step + rank);
      state.extra = "{\"by\":" + std::to_string(rank) + "}";
      kept.keep(state);
    }
    what_fails_forgets_nothing(session, kept, state);
  } else if (round == 1) {
    expect(loaded && loaded->step == 3 && loaded->from_memory && loaded->world_size == 2, "step 3 was kept");
    expect(state.step == 3 && state.extra == "{\"by\":0}", "extra is that of rank 0");
    expect(row.eq(3 + rank).all().item<bool>() && number.item<std::int64_t>() == 300 + rank, "the values are back");
    expect(!kept.restore(state, nullptr, 4) && kept.refused().empty(), "step 3 is below 4");
    state.extra = std::string((1 << 20) + 1, ' ');
    if (rank == 0) std::printf("too long: %s\n", error_of([&] { kept.keep(state); }).c_str());
    state.step = -1;
    if (rank == 0) std::printf("below: %s\n", error_of([&] { kept.keep(state); }).c_str());
    expect(kept.restore(state)->step == 3, "a keep that failed has changed nothing");
  } else {
    expect(!loaded, "a line is no row");
    if (rank == 0) std::printf("refused: %s\n", kept.refused().c_str());
    session.barrier();
    kept.keep(state);
    expect(kept.restore(state).has_value(), "the new tensors are kept");
    session.barrier();
    whole_from_parts(kept, rank);
  }
  std::fflush(stdout);
  session.barrier();
  if (round < 2) ::raise(SIGKILL);
  session.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  const bool hand = argc == 2 && std::string(argv[1]) == "by-hand";
  if (argc < 4 && !hand) return 2;
  try {
    if (hand) {
      by_hand();
      return 0;
    }
    train(argv[1], std::atoll(argv[2]), std::atoi(argv[3]), argc > 4 ? std::atoll(argv[4]) : 0);
  } catch (const std::exception& error) {
    std::cerr << "kept_worker: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
