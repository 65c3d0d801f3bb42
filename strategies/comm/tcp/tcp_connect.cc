// See tcp_connect.h. The key "door/<rank>" says where a rank listens, and the token that it wants to see.
#include "strategies/comm/tcp/tcp_connect.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <deque>
#include <memory>
#include <stdexcept>

#include "strategies/comm/bootstrap/store_answer.h"
#include "strategies/comm/tcp/reachable_address.h"

namespace dtrain {
namespace {

using Clock = std::chrono::steady_clock;
using Token = std::array<unsigned char, 32>;

// How long a peer that has connected may take to show the token, and how many such peers there may be. If there are
// more, the oldest one is closed, since ranks say at once who they are.
constexpr std::chrono::seconds kHelloTime{5};
constexpr std::size_t kMaxUnknown = 256;

// What the rank that connects sends first.
struct Hello {
  Token token;
  std::uint32_t rank;
  std::uint32_t lane;  // of Lanes::all()
};
static_assert(sizeof(Hello) == 40);

std::string door_key(int rank) { return fmt::format("door/{}", rank); }

std::string hex(const Token& token) {
  std::string text;
  for (const unsigned char byte : token) text += fmt::format("{:02x}", byte);
  return text;
}

Token from_hex(const std::string& text) {
  Token token{};
  if (text.size() != 2 * token.size()) throw std::runtime_error("a rank's token in the store is malformed");
  for (std::size_t i = 0; i < token.size(); ++i)
    token[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return token;
}

// Compares in a time that does not depend on where the tokens differ.
bool equal(const Token& one, const Token& other) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) difference |= unsigned{one[i]} ^ other[i];
  return difference == 0;
}

std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> resolve(const std::string& address, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    throw std::runtime_error("not an address: " + address);
  return {found, ::freeaddrinfo};
}

[[noreturn]] void throw_socket_errno(const std::string& what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

int milliseconds_until(Clock::time_point moment) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(moment - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

// Small messages are sent at once, and a host that is gone is noticed within half a minute.
void tune(const Socket& socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.fd(), level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

class Door {
 public:
  explicit Door(std::vector<int> expected) : expected_(std::move(expected)) {
    if (::getrandom(token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size()))
      throw_socket_errno("getrandom");
    address_ = reachable_address();
    const auto at = resolve(address_, 0);
    listener_ = Socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const auto backlog = static_cast<int>(3 * expected_.size() + kMaxUnknown);
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (::bind(listener_.fd(), at->ai_addr, at->ai_addrlen) != 0 || ::listen(listener_.fd(), backlog) != 0 ||
        ::getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
      throw_socket_errno("listening at " + address_);
    port_ = ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                            : reinterpret_cast<sockaddr_in&>(own).sin_port);
  }

  nlohmann::json sign() const { return {{"address", address_}, {"port", port_}, {"token", hex(token_)}}; }

  // Return when all expected ranks have connected.
  void admit(std::map<int, Lanes>& lanes, Clock::time_point deadline) {
    for (int missing = first_missing(lanes); missing >= 0; missing = first_missing(lanes)) {
      if (Clock::now() >= deadline)
        throw std::runtime_error(
            fmt::format("rank {} did not connect to {}:{}; hosts must reach each other's ports, and GLOO_SOCKET_IFNAME "
                        "may name the interface between them",
                        missing, address_, port_));
      wait(deadline);
      listen_to_unknown(lanes);
      accept_some();
    }
  }

 private:
  struct Unknown {
    Socket socket;
    Clock::time_point until;
    Hello hello{};
    std::size_t read = 0;
  };

  int first_missing(std::map<int, Lanes>& lanes) const {
    for (const int rank : expected_) {
      const auto found = lanes.find(rank);
      if (found == lanes.end()) return rank;
      for (const Socket* lane : found->second.all())
        if (lane->fd() < 0) return rank;
    }
    return -1;
  }

  void wait(Clock::time_point deadline) const {
    std::vector<pollfd> polls;
    polls.push_back({listener_.fd(), POLLIN, 0});
    for (const Unknown& one : unknown_) {
      polls.push_back({one.socket.fd(), POLLIN, 0});
      deadline = std::min(deadline, one.until);
    }
    ::poll(polls.data(), polls.size(), milliseconds_until(deadline));
  }

  void listen_to_unknown(std::map<int, Lanes>& lanes) {
    std::erase_if(unknown_, [&](Unknown& one) {
      auto* into = reinterpret_cast<char*>(&one.hello) + one.read;
      const auto n = ::recv(one.socket.fd(), into, sizeof one.hello - one.read, 0);
      if (n < 0 && (errno == EAGAIN || errno == EINTR)) return Clock::now() >= one.until;
      if (n <= 0) return true;
      one.read += static_cast<std::size_t>(n);
      if (one.read < sizeof one.hello) return false;
      recognise(one, lanes);
      return true;
    });
  }

  void recognise(Unknown& one, std::map<int, Lanes>& lanes) {
    const auto rank = static_cast<int>(one.hello.rank);
    if (!equal(one.hello.token, token_) || one.hello.lane >= std::tuple_size_v<decltype(Lanes().all())> ||
        std::find(expected_.begin(), expected_.end(), rank) == expected_.end())
      return;
    Socket& place = *lanes[rank].all().at(one.hello.lane);
    if (place.fd() < 0) place = std::move(one.socket);
  }

  // Accept half of kMaxUnknown at most: so each peer is heard before it has to go.
  void accept_some() {
    for (std::size_t accepted = 0; accepted < kMaxUnknown / 2; ++accepted) {
      Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (socket.fd() < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
          throw_socket_errno("connecting to ranks of other hosts");
        return;
      }
      tune(socket);
      if (unknown_.size() == kMaxUnknown) unknown_.pop_front();
      unknown_.push_back({std::move(socket), Clock::now() + kHelloTime});
    }
  }

  const std::vector<int> expected_;
  Token token_{};
  std::string address_;
  int port_ = 0;
  Socket listener_;
  std::deque<Unknown> unknown_;
};

// A door whose sign is in the store. If it cannot be opened, the ranks that wait for the sign find the reason there.
std::unique_ptr<Door> open_door(GroupStore& store, int rank, std::vector<int> expected) {
  return answer_with(store, door_key(rank), [&] {
    auto door = std::make_unique<Door>(std::move(expected));
    nlohmann::json sign = door->sign();
    return std::pair(std::move(door), std::move(sign));
  });
}

Socket knock(const addrinfo& at, Hello hello, Clock::time_point deadline) {
  Socket socket(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.fd() < 0) return socket;
  if (::connect(socket.fd(), at.ai_addr, at.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return {};
    pollfd entry{socket.fd(), POLLOUT, 0};
    while (::poll(&entry, 1, milliseconds_until(deadline)) < 0 && errno == EINTR) {
    }
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    errno = error != 0 ? error : ETIMEDOUT;
    if (error != 0 || entry.revents == 0) return {};
  }
  tune(socket);
  if (::send(socket.fd(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello) return {};
  return socket;
}

Lanes visit(GroupStore& store, int rank, int other, GroupStore::Deadline deadline) {
  nlohmann::json sign;
  try {
    sign = nlohmann::json::parse(store.take(door_key(other), deadline));
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("rank {} did not say where it listens ({})", other, error.what()));
  }
  if (sign.contains("error"))
    throw std::runtime_error(fmt::format("rank {} cannot listen: {}", other, sign["error"].get<std::string>()));
  const auto address = sign.at("address").get<std::string>();
  const int port = sign.at("port").get<int>();
  const auto at = resolve(address, port);
  Hello hello{from_hex(sign.at("token").get<std::string>()), static_cast<std::uint32_t>(rank), 0};
  Lanes lanes;
  for (Socket* lane : lanes.all()) {
    *lane = knock(*at, hello, deadline);
    ++hello.lane;
    if (lane->fd() >= 0) continue;
    const bool refused = errno == ECONNREFUSED;
    throw_socket_errno(
        fmt::format("cannot connect to rank {} at {}:{}{}", other, address, port,
                    refused ? ", which has ended or left" : " (GLOO_SOCKET_IFNAME may name its interface)"));
  }
  return lanes;
}

}  // namespace

std::map<int, Lanes> connect_ranks(GroupStore& store, int rank, const std::vector<int>& others,
                                   GroupStore::Deadline deadline) {
  std::vector<int> higher, lower;
  for (const int other : others) (other > rank ? higher : lower).push_back(other);
  std::unique_ptr<Door> door;
  if (!higher.empty()) door = open_door(store, rank, std::move(higher));
  std::map<int, Lanes> lanes;
  for (const int other : lower) lanes.emplace(other, visit(store, rank, other, deadline));
  if (door) door->admit(lanes, deadline);
  return lanes;
}

}  // namespace dtrain
