// Goes on when ranks die, for survivors_test.py: the listing of docs/training/survivors.md, and its moments.
//
//   survivors_worker FOLDER
//
// Rank 0 prints "world W step S" where a world begins. Each rank prints its process where it joins, and where it goes
// on: the nanoseconds of CLOCK_MONOTONIC at which the first collective of the new world was done. A step adds 1 to
// each weight. All end with the first step after FOLDER/done is there, and print their weight and the steps.
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <functional>
#include <iostream>

#include "dtrain/dtrain.h"

namespace {

long long now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000LL + time.tv_nsec;
}

// In one piece: the ranks share the reader.
void say(const std::string& line) { std::cout << line + "\n" << std::flush; }

// What all ranks must have alike, whoever is rank 0.
struct Progress {
  torch::Tensor weight = torch::zeros({1000}, torch::kDouble);
  torch::Tensor step = torch::zeros({1}, torch::kInt64);
  torch::Tensor done = torch::zeros({1}, torch::kInt64);

  void share(dtrain::Session& session) {
    for (torch::Tensor& tensor : {std::ref(weight), std::ref(step), std::ref(done)}) session.broadcast(tensor);
  }
};

void one_step(dtrain::Session& session, Progress& progress, const std::filesystem::path& folder) {
  torch::Tensor gradient = torch::ones_like(progress.weight);
  session.all_reduce(gradient, c10d::ReduceOp::AVG);
  progress.weight += gradient;
  progress.step += 1;
  if (session.is_first() && std::filesystem::exists(folder / "done")) progress.done += 1;
  session.broadcast(progress.done);
}

void run(const std::filesystem::path& folder) {
  auto session = dtrain::init();
  say(fmt::format("member {} is process {}", session.env().member, ::getpid()));
  Progress progress;
  const auto done = [&] { return progress.done.item<std::int64_t>() != 0; };
  while (!done()) {
    try {
      progress.share(session);
      say(fmt::format("rank {} of {} goes on at {}", session.rank(), session.world_size(), now()));
      if (session.is_first())
        say(fmt::format("world {} step {}", session.world_size(), progress.step.item<std::int64_t>()));
      while (!done() && !session.joiner_waits()) one_step(session, progress, folder);
      if (!done()) session.reform();
    } catch (const dtrain::CollectiveError& error) {
      say(fmt::format("rank {} of {}: {}", session.rank(), session.world_size(), error.what()));
      session.reform();
    }
  }
  say(fmt::format("rank {} ends: weight {:.0f} after {} steps", session.rank(), progress.weight.max().item<double>(),
                  progress.step.item<std::int64_t>()));
  session.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  torch::set_num_threads(1);
  run(argv[1]);
  return 0;
}
