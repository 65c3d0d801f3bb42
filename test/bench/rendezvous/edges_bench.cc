// edges_bench: the links of many edges with very many workers behind them, played by one process against `store_node
// host`; says what a barrier of all workers costs. The links and their frames are real, the workers' own connections
// are left out: they end at their edges.
//   edges_bench PORT TOKEN_FILE [--edges 64] [--workers 100000] [--barriers 3] [--merged] [--value BYTES]
// PORT is that for other nodes. A barrier is what torch's process groups do: each worker adds one to a counter, the
// last sets a key, all wait for that key. --merged: as if an edge had put the equal requests of all its workers into
// one, which it cannot do always; the difference is what merging could save at most. After the barriers all workers get
// one value.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/store_wire.h"
#include "rendezvous/store_relay/store_link_wire.h"
#include "rendezvous/tls/tls_session.h"

namespace {

using namespace dtrain;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kRound = 1;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "edges_bench: %s\n", why.c_str());
  std::exit(1);
}

struct Plan {
  std::uint16_t port = 0;
  std::optional<JobSecret> secret{};
  int edges = 64;
  int workers = 100000;
  int barriers = 3;
  bool merged = false;
  std::size_t value = 4096;
};

// One edge's link. It waits for what it wants, so each of them has its turn.
class Edge {
 public:
  explicit Edge(const Plan& plan) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(plan.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("no store listens there");
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (plan.secret) {
      auto session = TlsSession::client(*plan.secret, {LinkRole::store, kRound, "bench"});
      if (!session) die(session.error().message);
      tls_.emplace(std::move(*session));
      push();
    }
    out.append(kStoreLinkGreeting);
    put_store_link_frame(out, StoreLinkType::hello, kRound);
    flush();
    expect(1);
  }

  // Frames to be sent.
  std::string out;

  void flush() {
    if (tls_) {
      if (const auto sealed = tls_->send(out); !sealed) die(sealed.error().message);
      push();
    } else {
      write(out);
    }
    out.clear();
  }

  // Read until so many frames have come (a data frame's pieces count once).
  void expect(int frames) {
    while (frames_ < frames) read();
    frames_ -= frames;
  }

 private:
  void push() { write(tls_->take_output()); }
  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) die("the store has closed a link");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void read() {
    std::array<char, 65536> buffer;
    const ssize_t size = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (size <= 0) die("the store has closed a link");
    std::string plain;
    std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    if (tls_) {
      if (const auto heard = tls_->receive(bytes, plain); !heard) die(heard.error().message);
      push();
      bytes = plain;
    }
    while (decoder_.next(bytes) == StoreLinkDecoder::Status::frame) {
      if (decoder_.frame().type == StoreLinkType::refused || decoder_.frame().type == StoreLinkType::closed)
        die("the store refuses: " + std::string(decoder_.frame().payload));
      if (decoder_.complete()) ++frames_;
    }
  }

  UniqueFd fd_;
  std::optional<TlsSession> tls_;
  StoreLinkDecoder decoder_{true};
  int frames_ = 0;
};

std::string add(const std::string& key, std::int64_t by) {
  std::string out(1, static_cast<char>(StoreOp::add));
  put_store_bytes(out, key);
  put_store_i64(out, by);
  return out;
}
std::string wait(const std::string& key) {
  std::string out(1, static_cast<char>(StoreOp::wait));
  put_store_i64(out, 1);
  put_store_bytes(out, key);
  return out;
}
std::string set(const std::string& key, std::string_view value) {
  std::string out(1, static_cast<char>(StoreOp::set));
  put_store_bytes(out, key);
  put_store_bytes(out, value);
  return out;
}
std::string get(const std::string& key) {
  std::string out(1, static_cast<char>(StoreOp::get));
  put_store_bytes(out, key);
  return out;
}

double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// The same request of every worker (or one for all of them), answered.
void all(std::vector<Edge>& edges, int workers, const std::string& request, bool answered) {
  for (Edge& edge : edges) {
    for (int i = 1; i <= workers; ++i)
      put_store_link_frame(edge.out, StoreLinkType::data, static_cast<std::uint64_t>(i), request);
    edge.flush();
  }
  if (!answered) return;
  for (Edge& edge : edges) edge.expect(workers);
}

void barrier(std::vector<Edge>& edges, int workers, bool merged, const std::string& name) {
  const auto begin = Clock::now();
  const int requests = merged ? 1 : workers;
  all(edges, requests, add(name + "/count", merged ? workers : 1), true);
  const double counted = since(begin);
  all(edges, requests, wait(name + "/last"), false);
  put_store_link_frame(edges.front().out, StoreLinkType::data, static_cast<std::uint64_t>(workers) + 1,
                       set(name + "/last", "1"));
  edges.front().flush();
  for (Edge& edge : edges) edge.expect(requests);
  std::printf("%.3f %.3f\n", counted, since(begin));
}

void value(std::vector<Edge>& edges, int workers, std::size_t bytes) {
  put_store_link_frame(edges.front().out, StoreLinkType::data, static_cast<std::uint64_t>(workers) + 1,
                       set("value", std::string(bytes, 'v')) + get("value"));
  edges.front().flush();
  edges.front().expect(1);
  const auto begin = Clock::now();
  all(edges, workers, get("value"), true);
  std::printf("value %.3f\n", since(begin));
}

Plan plan_of(int argc, char** argv) {
  Plan plan;
  if (argc < 3) die("bad arguments; see the top of edges_bench.cc");
  plan.port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  if (argv[2] != std::string("-")) {
    auto secret = JobSecret::read(argv[2]);
    if (!secret) die(secret.error().message);
    plan.secret = *secret;
  }
  for (int i = 3; i < argc; ++i) {
    const std::string_view flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "0";
    if (flag == "--merged") {
      plan.merged = true;
      continue;
    }
    if (flag == "--edges")
      plan.edges = std::atoi(value);
    else if (flag == "--workers")
      plan.workers = std::atoi(value);
    else if (flag == "--barriers")
      plan.barriers = std::atoi(value);
    else if (flag == "--value")
      plan.value = std::strtoull(value, nullptr, 10);
    else
      die("unknown flag " + std::string(flag));
    ++i;
  }
  if (plan.edges < 1 || plan.workers < plan.edges || plan.barriers < 1) die("these numbers make no sense");
  return plan;
}

}  // namespace

// A line for each barrier: seconds until all have been counted, and until all have been let go; then one for the value.
int main(int argc, char** argv) {
  const Plan plan = plan_of(argc, argv);
  std::vector<Edge> edges;
  edges.reserve(static_cast<std::size_t>(plan.edges));
  for (int i = 0; i < plan.edges; ++i) edges.emplace_back(plan);
  const int workers = plan.workers / plan.edges;
  for (Edge& edge : edges) {
    for (int i = 1; i <= workers + 1; ++i)
      put_store_link_frame(edge.out, StoreLinkType::open, static_cast<std::uint64_t>(i));
    edge.flush();
  }
  for (int i = 0; i < plan.barriers; ++i) barrier(edges, workers, plan.merged, fmt::format("barrier{}", i));
  value(edges, plan.merged ? 1 : workers, plan.value);
  return 0;
}
