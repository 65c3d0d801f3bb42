// collectives_bench OP TYPE BYTES[,BYTES...] (plan.h), under a launcher: dtrain's process group as C++ uses it. OP
// `memory`: GB/s that all ranks together copy at, read and written.
#include <torch/torch.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "dtrain/session.h"
#include "test/bench/collectives/plan.h"

namespace {

using dtrain::Session;

torch::ScalarType type_of(const std::string& name) {
  if (name == "float32") return torch::kFloat32;
  if (name == "bfloat16") return torch::kBFloat16;
  throw std::runtime_error("no type " + name);
}

std::function<void()> operation(Session& session, const std::string& op, torch::ScalarType type, std::size_t bytes) {
  const dtrain::Group world = session.world();
  const int ranks = session.world_size();
  const auto count = static_cast<std::int64_t>(bytes) / static_cast<std::int64_t>(torch::elementSize(type));
  torch::Tensor whole = torch::zeros({count / ranks * ranks}, type);
  torch::Tensor part = torch::zeros({count / ranks}, type);
  if (op == "all_reduce") {
    return [=, &session] { session.all_reduce(whole); };
  }
  if (op == "all_reduce_shared") {
    whole = session.empty_shared(whole.sizes(), type).zero_();
    return [=, &session] { session.all_reduce(whole); };
  }
  if (op == "broadcast") {
    return [=, &session] { session.broadcast(whole); };
  }
  if (op == "all_gather") {
    return [=] { world.all_gather(whole, part); };
  }
  if (op == "reduce_scatter") {
    return [=] { world.reduce_scatter(part, whole); };
  }
  if (op == "all_to_all") {
    return [=, from = torch::zeros_like(whole)] { world.all_to_all(whole, from); };
  }
  if (op == "send_recv") {  // to the other of a pair and back; half of it is one way
    const int rank = session.rank(), other = rank ^ 1;
    return [=] {
      if (other >= ranks) return;
      const auto out = [&] { world.send(whole, other); };
      const auto in = [&] { world.recv(whole, other); };
      rank < other ? (out(), in()) : (in(), out());
    };
  }
  throw std::runtime_error("no operation " + op);
}

double copied_gb_per_s(Session& session) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  std::vector<char> from(kBytes, 1), to(kBytes);
  const double us = dtrain::bench::measure(
      kBytes, [&] { session.barrier(); }, [&] { std::memcpy(to.data(), from.data(), kBytes); });
  return 2.0 * kBytes * session.world_size() / us / 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  torch::set_num_threads(1);
  Session session = dtrain::init();
  if (argv[1] == std::string("memory")) {
    const double rate = copied_gb_per_s(session);
    if (session.is_first()) std::printf("0 %.3f\n", rate);
  } else {
    for (const std::size_t bytes : dtrain::bench::sizes_of(argv[3])) {
      const auto run = operation(session, argv[1], type_of(argv[2]), bytes);
      const double us = dtrain::bench::measure(
          bytes, [&] { session.barrier(); }, run);
      if (session.is_first()) std::printf("%zu %.3f\n", bytes, argv[1] == std::string("send_recv") ? us / 2 : us);
    }
  }
  session.shutdown();
  return 0;
}
