#pragma once
// A client of a store in this process, and what else tests of stores need.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store_server/store_host.h"
#include "test/support/catch.h"
#include "test/unit/rendezvous/store_bytes.h"

namespace dtrain::store_test {

namespace bytes = store_bytes;

inline constexpr int kDeadlineMs = 10000;
// A blocking client; every read has a deadline.
class Client {
 public:
  explicit Client(std::uint16_t port, int family = AF_INET) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_addr = in6addr_loopback;
    connected_ = family == AF_INET ? ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&v4), sizeof(v4)) == 0
                                   : ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&v6), sizeof(v6)) == 0;
  }

  bool send(std::string_view data) {
    while (!data.empty()) {
      const ssize_t sent = ::send(fd_.get(), data.data(), data.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // Exactly `size` bytes, or fewer if the server closes or the deadline passes.
  std::string read(std::size_t size) {
    std::string out;
    char buffer[65536];
    while (out.size() < size && readable()) {
      const ssize_t got = ::recv(fd_.get(), buffer, std::min(sizeof(buffer), size - out.size()), 0);
      if (got <= 0) break;
      out.append(buffer, static_cast<std::size_t>(got));
    }
    return out;
  }

  // The server closes without having said anything.
  bool closed_by_server() {
    char byte = 0;
    return connected_ && readable() && ::recv(fd_.get(), &byte, 1, 0) <= 0;
  }

  std::string ask(const std::string& message, std::size_t reply_size) { return send(message) ? read(reply_size) : ""; }
  bool greet() { return connected_ && ask(bytes::greeting() + bytes::ping(7), 4) == bytes::u32(7); }
  int fd() const { return fd_.get(); }

 private:
  bool readable() {
    pollfd poll{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&poll, 1, kDeadlineMs) > 0;
  }

  UniqueFd fd_;
  bool connected_ = false;
};

struct Log {
  std::function<void(std::string_view)> sink() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      text += std::string(line) + "\n";
    };
  }
  bool has(const char* part) {
    const std::lock_guard lock(mutex);
    return text.find(part) != std::string::npos;
  }
  std::mutex mutex;
  std::string text;
};

inline std::unique_ptr<StoreHost> start(StoreHost::Options options = {}) {
  auto store = StoreHost::start(std::move(options));
  REQUIRE(store.ok());
  return std::move(store).value();
}

// The statistics are published after the reply they follow from; ask again until they say what is expected.
template <class Predicate>
bool eventually(const StoreHost& store, Predicate predicate) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kDeadlineMs);
  while (!predicate(store.stats())) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// How often the threads of stores have gone to sleep so far; -1 if there is none.
inline long wake_ups() {
  long total = -1;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    if (name != "dtrain-store") continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      if (word == "voluntary_ctxt_switches:" && status >> word) total = std::max(total, 0L) + std::stol(word);
    }
  }
  return total;
}

// Whether they sleep all the time. A timer may still fire once; after that two looks a second apart must agree.
inline bool fall_asleep() {
  long before = -1;
  long after = wake_ups();
  for (int look = 0; look < 5 && before != after; ++look) {
    before = after;
    // tidy: allow sleep, because a quiet second is what is tested
    std::this_thread::sleep_for(std::chrono::seconds(1));
    after = wake_ups();
  }
  return after >= 0 && before == after;
}

}  // namespace dtrain::store_test
