// lost_rank HOW: ranks reduce a tensor again and again; in the 4th step the last rank is lost. HOW is
//   kill     by SIGKILL
//   throw    by an exception
//   leave    by an end with 0, without shutdown()
//   away     it does not come to the collective in time, which is 5 seconds
//   differ   it comes with another number of elements
// On the device of the session. Each rank says what it got.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>

#include "dtrain/dtrain.h"

int main(int argc, char** argv) {
  const std::string how = argc > 1 ? argv[1] : "kill";
  torch::set_num_threads(1);
  dtrain::InitOptions options;
  options.collective_timeout = std::chrono::seconds(how == "away" ? 5 : 20);
  dtrain::Session session = dtrain::init(options);
  const bool lost = session.rank() == session.world_size() - 1;
  try {
    for (int step = 0; step < 8; ++step) {
      std::int64_t count = 1 << 20;
      if (step == 3 && lost) {
        if (how == "kill") ::raise(SIGKILL);
        if (how == "throw") throw std::runtime_error("cannot read shard 17");
        if (how == "leave") ::_exit(0);
        // tidy: allow sleep, because this is the rank that does not come
        if (how == "away") std::this_thread::sleep_for(std::chrono::seconds(60));
        if (how == "differ") count /= 2;
      }
      const auto tensor = torch::full({count}, session.rank() + 1.0F, torch::TensorOptions(session.device()));
      session.all_reduce(tensor);
      fmt::print("rank {} step {}: {}\n", session.rank(), step, tensor[0].item<float>());
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    fmt::print("rank {} caught: {}\n", session.rank(), error.what());
    std::fflush(stdout);
    throw;
  }
  session.shutdown();
}
