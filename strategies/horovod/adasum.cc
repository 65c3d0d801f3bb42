// See adasum.h. The two of a pair send each other all they have and compute the same, the lower rank's gradient first.
#include "strategies/horovod/adasum.h"

namespace dtrain::hvd {
namespace {

// Of a gradient with the dot product `dot` with the other one: half of what they have in common belongs to each.
double factor(double dot, double norm) { return norm == 0 ? 1 : 1 - dot / (2 * norm); }

void exchange(c10d::ProcessGroup& group, const at::Tensor& mine, const at::Tensor& theirs, int partner) {
  std::vector<at::Tensor> out{mine};
  std::vector<at::Tensor> in{theirs};
  if (group.getRank() < partner) {
    group.send(out, partner, 0)->wait();
    group.recv(in, partner, 0)->wait();
  } else {
    group.recv(in, partner, 0)->wait();
    group.send(out, partner, 0)->wait();
  }
}

}  // namespace

at::Tensor adasum_of_two(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor x = a.to(at::kDouble);
  const at::Tensor y = b.to(at::kDouble);
  const double dot = x.dot(y).item<double>();
  return (x * factor(dot, x.dot(x).item<double>()) + y * factor(dot, y.dot(y).item<double>())).to(a.scalar_type());
}

void adasum(const c10::intrusive_ptr<c10d::ProcessGroup>& group, const at::Tensor& buffer,
            const std::vector<std::int64_t>& sizes) {
  const at::Tensor other = at::empty_like(buffer);
  for (int distance = 1; distance < group->getSize(); distance *= 2) {
    const int partner = group->getRank() ^ distance;
    exchange(*group, buffer, other, partner);
    const at::Tensor& low = group->getRank() < partner ? buffer : other;
    const at::Tensor& high = group->getRank() < partner ? other : buffer;
    std::int64_t at = 0;
    for (const std::int64_t size : sizes) {
      const at::Tensor sum = adasum_of_two(low.narrow(0, at, size), high.narrow(0, at, size));
      buffer.narrow(0, at, size).copy_(sum);
      at += size;
    }
  }
}

}  // namespace dtrain::hvd
