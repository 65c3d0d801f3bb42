// Trains until rank CULPRIT (the second argument) fails in the way of the first.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>

#include "dtrain/ddp.h"
#include "dtrain/session.h"

namespace {

// True: main is to return `code`.
bool fail(const std::string& way, int rank, int& code) {
  if (way == "throw") throw std::runtime_error("cannot read shard " + std::to_string(rank));
  if (way == "torch") TORCH_CHECK(false, "cannot read shard ", rank);  // with its C++ frames
  if (way == "kill") std::raise(SIGKILL);
  if (way == "segv") std::raise(SIGSEGV);
  if (way == "late") ::pause();
  code = way == "return0" ? 0 : 1;
  return true;
}

int train(const std::string& way, int culprit) {
  dtrain::InitOptions options;
  if (way == "late") options.collective_timeout = std::chrono::seconds{3};
  auto session = dtrain::init(options);
  const bool guilty = session.rank() == culprit;
  const int outputs = way == "model" && guilty ? 4 : 3;
  const torch::nn::Sequential net(torch::nn::Linear(8, outputs), torch::nn::BatchNorm1d(outputs));
  dtrain::Ddp model(session, net);
  int code = 0;
  for (int step = 0; step < 1'000'000; ++step) {
    const bool fails = guilty && step == 5;
    if (fails && way != "forgets" && fail(way, session.rank(), code)) return code;
    const torch::Tensor loss = model(torch::ones({4, 8})).sum();
    if (!fails) loss.backward();
  }
  return 0;
}

}  // namespace

int main(int, char** argv) {
  const std::string way = argv[1];
  if (way != "caught") return train(way, std::atoi(argv[2]));
  try {
    return train("throw", std::atoi(argv[2]));
  } catch (const std::exception& error) {
    std::cerr << "train: " << error.what() << '\n';
    return 1;
  }
}
