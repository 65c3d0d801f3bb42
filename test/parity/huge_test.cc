// Tensors of more than 2 GiB: sizes and places that no 32 bits hold.
#include <fmt/format.h>

#include <fstream>

#include "strategies/torch/compat.h"
#include "test/parity/joined.h"
#include "test/support/catch.h"
#include "test/unit/strategies/hosts_store.h"

using namespace dtrain;

namespace {

constexpr std::int64_t kPart = (std::int64_t{1} << 30) + 2051;  // two of them are more than 2^31

double available_gib() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (line.rfind("MemAvailable:", 0) == 0) return std::stod(line.substr(13)) / (1 << 20);
  }
  return 0;
}

torch::Tensor full(std::int64_t count, int value) { return torch::full({count}, value, torch::kByte); }

bool all_are(const torch::Tensor& tensor, int value) {
  return tensor.min().item<int>() == value && tensor.max().item<int>() == value;
}

// What came out wrong; each step gives its memory back.
std::string moved(const c10::intrusive_ptr<c10d::ProcessGroup>& group, int rank) {
  std::string wrong;
  const auto check = [&](const char* what, bool right) {
    if (!right) wrong += fmt::format("{}; ", what);
  };
  {
    std::vector<at::Tensor> tensors{full(2 * kPart, rank + 1)};
    group->allreduce(tensors)->wait();
    check("all_reduce", all_are(tensors[0], 3));
    tensors[0].fill_(rank + 4);
    group->broadcast(tensors, {.rootRank = 1})->wait();
    check("broadcast", all_are(tensors[0], 5));
    tensors[0].fill_(rank + 6);
    if (rank == 0) group->send(tensors, 1, 0)->wait();
    if (rank == 1) group->recv(tensors, 0, 0)->wait();
    check("send, recv", all_are(tensors[0], 6));
  }
  {
    at::Tensor part = full(kPart, rank + 1), whole = full(2 * kPart, 0);
    all_gather_single(*group, whole, part)->wait();
    check("all_gather", all_are(whole.narrow(0, 0, kPart), 1) && all_are(whole.narrow(0, kPart, kPart), 2));
    reduce_scatter_single(*group, part, whole)->wait();
    check("reduce_scatter", all_are(part, 2 * (rank + 1)));
  }
  at::Tensor in = full(2 * kPart, rank + 1), out = full(2 * kPart, 0);
  in.narrow(0, kPart, kPart).add_(10);
  all_to_all_single(*group, out, in)->wait();
  const int own = rank == 0 ? 0 : 10;
  check("all_to_all", all_are(out.narrow(0, 0, kPart), 1 + own) && all_are(out.narrow(0, kPart, kPart), 2 + own));
  return wrong;
}

}  // namespace

TEST_CASE("tensors of more than 2 GiB, on one host and between two") {
  if (available_gib() < 12) {
    WARN("skipped: it needs 12 GiB of free memory");
    return;
  }
  const std::string letters = GENERATE("aa", "ab");
  CAPTURE(letters);
  const auto outcomes = test::outcomes_of(
      2,
      [&](Session& session) {
        FormedGroup formed = test::form_on_hosts(session, letters);
        std::string wrong = moved(formed.group, session.rank());
        session.barrier();
        formed.shutdown();
        return wrong;
      },
      true, std::chrono::seconds{170});
  test::require_all_returned(outcomes);
  for (const auto& outcome : outcomes) CHECK(outcome.said == "");
}
