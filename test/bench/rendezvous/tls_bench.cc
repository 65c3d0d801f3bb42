// What TLS between agents costs, in one thread and without sockets: handshakes, bytes and memory. CPU time, so that a
// busy machine does not change the figures much. usage: tls_bench [seconds for each figure, default 2]
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "rendezvous/tls/tls_session.h"

namespace {

using dtrain::JobSecret;
using dtrain::LinkName;
using dtrain::LinkRole;
using dtrain::Result;
using dtrain::TlsSession;

// Seconds of CPU time of this process.
double cpu() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  std::fprintf(stderr, "tls_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}
void must(Result<void> result) {
  if (result) return;
  std::fprintf(stderr, "tls_bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

struct Pair {
  explicit Pair(const JobSecret& secret)
      : client(must(TlsSession::client(secret, {LinkRole::store, 1, "bench"}))),
        server(must(TlsSession::server(secret, "bench"))) {}
  TlsSession client, server;
};

struct Cost {
  double client = 0, server = 0;  // seconds
  std::size_t bytes = 0;
};

Cost shake_hands(const JobSecret& secret) {
  Cost cost;
  std::string nothing;
  double since = cpu();
  const auto lap = [&since] {
    const double now = cpu(), passed = now - since;
    since = now;
    return passed;
  };
  auto client = must(TlsSession::client(secret, {LinkRole::store, 1, "bench"}));
  const std::string hello = client.take_output();
  cost.client += lap();
  auto server = must(TlsSession::server(secret, "bench"));
  must(server.receive(hello, nothing));
  const std::string answer = server.take_output();
  cost.server += lap();
  must(client.receive(answer, nothing));
  const std::string finished = client.take_output();
  cost.client += lap();
  must(server.receive(finished, nothing));
  cost.server += lap();
  cost.bytes = hello.size() + answer.size() + finished.size();
  if (!client.established() || !server.established()) std::abort();
  return cost;
}

void handshakes(const JobSecret& secret, double seconds) {
  shake_hands(secret);  // loads the library
  Cost sum;
  int count = 0;
  for (const double end = cpu() + seconds; cpu() < end; ++count) {
    const Cost one = shake_hands(secret);
    sum.client += one.client;
    sum.server += one.server;
    sum.bytes = one.bytes;
  }
  std::printf("handshakes: %.0f /s as server, %.0f /s as client (%.0f and %.0f us), %zu bytes both ways\n",
              count / sum.server, count / sum.client, 1e6 * sum.server / count, 1e6 * sum.client / count, sum.bytes);
}

void connect(Pair& pair) {
  std::string nothing;
  for (int i = 0; i < 2; ++i) {
    must(pair.server.receive(pair.client.take_output(), nothing));
    must(pair.client.receive(pair.server.take_output(), nothing));
  }
  if (!pair.client.established() || !pair.server.established()) std::abort();
}

void bulk(const JobSecret& secret, std::size_t message, double seconds) {
  Pair pair(secret);
  connect(pair);
  const std::string text(message, 'x');
  std::string heard;
  double bytes = 0, sealing = 0, opening = 0;
  for (const double end = cpu() + seconds; cpu() < end;) {
    const double start = cpu();
    std::string wire;
    for (std::size_t i = 0; i < (1 << 20); i += message) {
      must(pair.client.send(text));
      wire += pair.client.take_output();
    }
    const double sealed = cpu();
    heard.clear();
    for (std::size_t at = 0; at < wire.size(); at += 65536)
      must(pair.server.receive(std::string_view(wire).substr(at, 65536), heard));
    opening += cpu() - sealed;
    sealing += sealed - start;
    bytes += static_cast<double>(heard.size());
  }
  std::printf("messages of %zu bytes: %.2f GB/s sealed, %.2f GB/s opened, %.2f GB/s both in one thread\n", message,
              bytes / sealing / 1e9, bytes / opening / 1e9, bytes / (sealing + opening) / 1e9);
}

void memory(const JobSecret& secret) {
  constexpr int kPairs = 1000;
  std::vector<Pair> pairs;
  pairs.reserve(kPairs);
  const std::size_t before = mallinfo2().uordblks;
  for (int i = 0; i < kPairs; ++i) {
    pairs.emplace_back(secret);
    connect(pairs.back());
  }
  std::printf("memory: %.1f KB for each end of an idle link\n",
              static_cast<double>(mallinfo2().uordblks - before) / 1e3 / (2 * kPairs));
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 2;
  const JobSecret secret = must(JobSecret::generate());
  handshakes(secret, seconds);
  for (const std::size_t message : {std::size_t{64}, std::size_t{1024}, std::size_t{16384}, std::size_t{262144}})
    bulk(secret, message, seconds);
  memory(secret);
}
