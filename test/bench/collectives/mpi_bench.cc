// mpi_bench OP float32 BYTES[,BYTES...] (plan.h), under mpirun: what the operations take there. MPI has no bfloat16.
#include <mpi.h>

#include <functional>
#include <string>
#include <vector>

#include "test/bench/collectives/plan.h"

namespace {

// Aligned as torch aligns tensors: to copy from and to other places takes several times as long on some processors.
class Floats {
 public:
  explicit Floats(std::size_t count) : count_(count), lines_(count / kInLine + 1) {}
  float* data() { return lines_.front().floats; }
  std::size_t size() const { return count_; }

 private:
  static constexpr std::size_t kInLine = 16;
  struct alignas(64) Line {
    float floats[kInLine];
  };
  const std::size_t count_;
  std::vector<Line> lines_;
};

struct Buffers {
  Floats whole, other, part;
};

std::function<void()> operation(const std::string& op, Buffers& buffers, int rank, int ranks) {
  float* const whole = buffers.whole.data();
  float* const other = buffers.other.data();
  float* const part = buffers.part.data();
  const int count = static_cast<int>(buffers.whole.size());
  const int share = static_cast<int>(buffers.part.size());
  if (op == "all_reduce") return [=] { MPI_Allreduce(MPI_IN_PLACE, whole, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
  if (op == "broadcast") return [=] { MPI_Bcast(whole, count, MPI_FLOAT, 0, MPI_COMM_WORLD); };
  if (op == "all_gather")
    return [=] { MPI_Allgather(part, share, MPI_FLOAT, whole, share, MPI_FLOAT, MPI_COMM_WORLD); };
  if (op == "reduce_scatter")
    return [=] { MPI_Reduce_scatter_block(whole, part, share, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); };
  if (op == "all_to_all")
    return [=] { MPI_Alltoall(other, share, MPI_FLOAT, whole, share, MPI_FLOAT, MPI_COMM_WORLD); };
  if (op == "send_recv") {
    const int peer = rank ^ 1;
    return [=] {
      if (peer >= ranks) return;
      const auto out = [&] { MPI_Send(whole, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD); };
      const auto in = [&] { MPI_Recv(whole, count, MPI_FLOAT, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE); };
      rank < peer ? (out(), in()) : (in(), out());
    };
  }
  std::fprintf(stderr, "no operation %s\n", op.c_str());
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || argv[2] != std::string("float32")) return 2;
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (const std::size_t bytes : dtrain::bench::sizes_of(argv[3])) {
    const std::size_t share = bytes / sizeof(float) / static_cast<std::size_t>(ranks);
    const std::size_t count = share * static_cast<std::size_t>(ranks);
    Buffers buffers{Floats(count), Floats(count), Floats(share)};
    const auto run = operation(argv[1], buffers, rank, ranks);
    const double us = dtrain::bench::measure(
        bytes, [] { MPI_Barrier(MPI_COMM_WORLD); }, run);
    if (rank == 0) std::printf("%zu %.3f\n", bytes, argv[1] == std::string("send_recv") ? us / 2 : us);
  }
  MPI_Finalize();
  return 0;
}
