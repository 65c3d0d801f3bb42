// store_client: a plain blocking client of the worker store that measures what one operation costs.
//   store_client latency PORT OPERATIONS [bare]  microseconds of one ADD, one after the other: median and 99th
//                                                percentile; bare: as many bytes to and fro with `store_node echo`
//   store_client load PORT,... SECONDS [redis]   ADDs per second, one client and thread for each port, and microseconds
//                                                of one: median and 99th percentile; redis: INCRs of a Redis server.
//                                                Before the clock starts, each has had an answer: torch's server looks
//                                                up the name of every client that connects
//   store_client get PORT MIB SECONDS            GB/s of MULTI_GETs that reply with MIB MiB each
//   store_client set PORT MIB SECONDS            GB/s of MULTI_SETs of MIB MiB each
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "rendezvous/base/check.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store/store_wire.h"

namespace {

using dtrain::StoreOp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class Client {
 public:
  explicit Client(const char* port, bool greet = true) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    DT_CHECK(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0,
             "a store listens there");
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (!greet) return;
    std::string greeting(1, static_cast<char>(StoreOp::validate));
    dtrain::put_store_u32(greeting, dtrain::kStoreMagic);
    send(greeting);
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      DT_CHECK(sent > 0, "the store takes what it is sent");
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }

  void receive(std::size_t size) {
    while (size > 0) {
      const ssize_t got = ::recv(fd_.get(), buffer_.data(), std::min(size, buffer_.size()), 0);
      DT_CHECK(got > 0, "the store answers");
      size -= static_cast<std::size_t>(got);
    }
  }

  // A short one, alone.
  void receive_line() {
    char last = 0;
    while (last != '\n') {
      const ssize_t got = ::recv(fd_.get(), buffer_.data(), buffer_.size(), 0);
      DT_CHECK(got > 0, "the server answers");
      last = buffer_[static_cast<std::size_t>(got) - 1];
    }
  }

 private:
  dtrain::UniqueFd fd_;
  std::vector<char> buffer_ = std::vector<char>(kMiB);
};

std::string message(StoreOp op, std::string_view key) {
  std::string out(1, static_cast<char>(op));
  dtrain::put_store_bytes(out, key);
  return out;
}

std::string add(const std::string& key) {
  std::string out = message(StoreOp::add, key);
  dtrain::put_store_i64(out, 1);
  return out;
}

std::vector<std::string> names(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back("value" + std::to_string(i));
  return out;
}

// MULTI_SET (values of one MiB) or MULTI_GET of `count` keys.
std::string many(StoreOp op, std::size_t count) {
  const std::string value(kMiB, 'v');
  std::string out(1, static_cast<char>(op));
  dtrain::put_store_i64(out, static_cast<std::int64_t>(count));
  for (const auto& name : names(count)) {
    dtrain::put_store_bytes(out, name);
    if (op == StoreOp::multi_set) dtrain::put_store_bytes(out, value);
  }
  return out;
}

std::string ping() {
  std::string out(1, static_cast<char>(StoreOp::ping));
  dtrain::put_store_u32(out, 1);
  return out;
}

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

int latency(const char* port, int operations, bool bare) {
  Client client(port, !bare);
  const std::string request = add("counter");
  std::vector<double> us;
  for (int i = -100; i < operations; ++i) {
    const auto begin = Clock::now();
    client.send(request);
    client.receive(sizeof(std::int64_t));
    if (i >= 0) us.push_back(us_between(begin, Clock::now()));
  }
  std::sort(us.begin(), us.end());
  std::printf("%.1f %.1f\n", us[us.size() / 2], us[us.size() * 99 / 100]);
  return 0;
}

std::string incr(const std::string& key) {
  return "*2\r\n$4\r\nINCR\r\n$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
}

std::vector<std::string> split(const std::string& ports) {
  std::vector<std::string> each;
  for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = ports.find(',', begin);
    each.push_back(ports.substr(begin, end - begin));
  }
  return each;
}

// Microseconds of each operation.
std::vector<double> add_until_end(const std::string& port, const std::string& key, bool redis, std::latch& ready,
                                  std::chrono::duration<double> seconds) {
  Client client(port.c_str(), !redis);
  const std::string request = redis ? incr(key) : add(key);
  const auto once = [&] {
    client.send(request);
    redis ? client.receive_line() : client.receive(sizeof(std::int64_t));
  };
  once();
  ready.arrive_and_wait();
  std::vector<double> us;
  const auto end = Clock::now() + seconds;
  for (auto begin = Clock::now(); begin < end;) {
    once();
    const auto now = Clock::now();
    us.push_back(us_between(begin, now));
    begin = now;
  }
  return us;
}

int load(const std::string& ports, double seconds, bool redis) {
  const auto each = split(ports);
  std::latch ready(static_cast<std::ptrdiff_t>(each.size()));
  std::vector<std::vector<double>> us(each.size());
  std::vector<std::thread> threads;
  threads.reserve(each.size());
  for (std::size_t i = 0; i < each.size(); ++i) {
    threads.emplace_back([&, i] {
      us[i] =
          add_until_end(each[i], "counter" + std::to_string(i), redis, ready, std::chrono::duration<double>(seconds));
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<double> all;
  for (const auto& mine : us) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  std::printf("%.0f %.1f %.1f\n", static_cast<double>(all.size()) / seconds, all[all.size() / 2],
              all[all.size() * 99 / 100]);
  return 0;
}

// GB/s of requests of `out` bytes that are answered with `in` bytes.
void stream(Client& client, const std::string& request, std::size_t in, double seconds) {
  const auto begin = Clock::now();
  double bytes = 0;
  double elapsed = 0;
  while (elapsed < seconds) {
    client.send(request);
    client.receive(in);
    bytes += static_cast<double>(std::max(request.size(), in));
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  std::printf("%.2f\n", bytes / elapsed / 1e9);
}

int bulk(const char* port, std::size_t mib, double seconds, bool get) {
  Client client(port);
  const std::string set = many(StoreOp::multi_set, mib) + ping();
  client.send(set);
  client.receive(sizeof(std::uint32_t));
  if (get) {
    stream(client, many(StoreOp::multi_get, mib), mib * (kMiB + sizeof(std::uint64_t)), seconds);
  } else {
    stream(client, set, sizeof(std::uint32_t), seconds);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "latency" && argc >= 4) return latency(argv[2], std::atoi(argv[3]), argc > 4);
  if (mode == "load" && argc >= 4) return load(argv[2], std::atof(argv[3]), argc > 4);
  if ((mode == "get" || mode == "set") && argc == 5) {
    return bulk(argv[2], static_cast<std::size_t>(std::atoi(argv[3])), std::atof(argv[4]), mode == "get");
  }
  std::fprintf(stderr, "store_client: bad arguments; see the top of store_client.cc\n");
  return 2;
}
