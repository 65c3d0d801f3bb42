// A rank that dies at a random moment of training: the others' calls of Ddp, and their Works, name it.
#include <fmt/format.h>
#include <signal.h>
#include <sys/time.h>

#include <random>

#include "dtrain/dtrain.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"

using namespace dtrain;

namespace {

// The kernel ends this process, as SIGKILL would: nothing of it runs any more.
void die_after(std::chrono::microseconds time) {
  ::signal(SIGALRM, SIG_DFL);
  itimerval timer{};
  timer.it_value.tv_usec = std::max<std::int64_t>(1, time.count());
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// What `call` throws, without the process's number.
std::string told(const std::function<void()>& call) {
  try {
    call();
  } catch (const CollectiveError& error) {
    return fmt::format("rank {} {}", error.rank(), error.kind() == FailureKind::peer_died ? "died" : error.what());
  }
  return "no error";
}

void train(Session& session) {
  torch::manual_seed(0);
  torch::nn::Sequential net(torch::nn::Linear(64, 300), torch::nn::ReLU(), torch::nn::Linear(300, 300),
                            torch::nn::ReLU(), torch::nn::Linear(300, 1));
  DdpOptions options;
  options.first_bucket_bytes = options.bucket_bytes = 100'000;
  Ddp model(session, net.ptr(), options);
  while (true) {
    model.zero_grad();
    model(torch::ones({4, 64})).sum().backward();
  }
}

// Several at once, and waited for in order; the last is asked by its future.
void reduce(Session& session) {
  while (true) {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (int i = 0; i < 4; ++i) {
      std::vector<at::Tensor> tensors{torch::ones({100'003})};
      works.push_back(session.group()->allreduce(tensors));
    }
    const auto last = works.back()->getFuture();
    for (std::size_t i = 0; i + 1 < works.size(); ++i) works[i]->wait();
    last->waitAndThrow();
  }
}

}  // namespace

TEST_CASE("a rank that dies while Ddp trains, or Works run, is named to all others") {
  const bool trains = GENERATE(true, false);
  const int seed = GENERATE(range(0, 12));
  CAPTURE(trains, seed);
  const auto outcomes = test::outcomes_of(
      3,
      [&](Session& session) {
        session.barrier();
        std::mt19937 random(static_cast<unsigned>(seed));
        const std::chrono::microseconds moment{random() % 60'000};
        const auto started = std::chrono::steady_clock::now();
        if (session.rank() == 1) die_after(moment);
        const std::string said = told([&] { trains ? train(session) : reduce(session); });
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started - moment;
        return fmt::format("{}{}", said, took.count() < 5 ? "" : fmt::format(", after {} s", took.count()));
      },
      false);
  CHECK(outcomes[1].signal == SIGALRM);
  CHECK(outcomes[0].said == "rank 1 died");
  CHECK(outcomes[2].said == "rank 1 died");
}
