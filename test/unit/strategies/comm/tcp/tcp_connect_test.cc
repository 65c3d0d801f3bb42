// How ranks of different hosts connect, and who is not let in; by real processes over the loopback.
#include "strategies/comm/tcp/tcp_connect.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "strategies/comm/tcp/reachable_address.h"
#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;
using test::run_ranks;
using test::SharedBoard;

namespace {

const bool kOnLoopback = ::setenv("GLOO_SOCKET_IFNAME", "lo", 1) == 0;

using Clock = std::chrono::steady_clock;

Clock::time_point soon() { return Clock::now() + std::chrono::seconds{10}; }

nlohmann::json sign_of_rank_0(GroupStore& board) { return nlohmann::json::parse(board.take("door/0", soon())); }

Socket dial(int port) {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  return socket;
}

// Whether the other end closes within ten seconds, without a byte.
bool is_closed_silently(const Socket& socket) {
  pollfd entry{socket.fd(), POLLIN, 0};
  char byte = 0;
  return ::poll(&entry, 1, 10'000) == 1 && ::recv(socket.fd(), &byte, 1, 0) <= 0;
}

std::string connect_as(GroupStore& board, int rank, const std::vector<int>& others, Clock::time_point deadline) {
  try {
    return connect_ranks(board, rank, others, deadline).size() == others.size() ? "connected" : "some";
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE(
    "who does not show the token, or is nobody that is awaited, is closed without a word, and the others come in") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 0) return connect_as(board, 0, {1}, soon());
    const nlohmann::json sign = sign_of_rank_0(board);
    const int port = sign.at("port").get<int>();
    const auto token = sign.at("token").get<std::string>();
    std::string hello(40, '\0');
    for (std::size_t i = 0; i < 32; ++i) hello[i] = static_cast<char>(std::stoi(token.substr(2 * i, 2), nullptr, 16));
    hello[32] = 1;  // the rank
    std::string wrong_token = hello, another_rank = hello, another_lane = hello;
    wrong_token[31] = static_cast<char>(wrong_token[31] ^ 1);
    another_rank[32] = 2;
    another_lane[36] = 3;
    for (const std::string& text : {wrong_token, another_rank, another_lane, std::string(40, '\0')}) {
      const Socket stranger = dial(port);
      ::send(stranger.fd(), text.data(), text.size(), MSG_NOSIGNAL);
      if (!is_closed_silently(stranger)) return "let in";
    }
    const Socket silent = dial(port);  // holds nobody up
    return connect_as(board, 1, {0}, soon());
  });
  for (const auto& outcome : outcomes) CHECK(outcome.said == "connected");
}

TEST_CASE("many that are silent do not keep a rank out") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 0) return connect_as(board, 0, {1}, soon());
    const int port = sign_of_rank_0(board).at("port").get<int>();
    std::vector<Socket> silent;
    for (int i = 0; i < 600; ++i) silent.push_back(dial(port));
    return connect_as(board, 1, {0}, Clock::now() + std::chrono::seconds{4});  // less than they have for a token
  });
  for (const auto& outcome : outcomes) CHECK(outcome.said == "connected");
}

TEST_CASE("the port is closed when all have come, and when not all did") {
  const bool comes = GENERATE(true, false);
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 1 && comes) return connect_as(board, 1, {0}, soon());
    if (rank == 1) return "stays away";
    const std::string said = connect_as(board, 0, {1}, Clock::now() + std::chrono::milliseconds{comes ? 10'000 : 300});
    return said + (dial(sign_of_rank_0(board).at("port").get<int>()).fd() < 0 ? ", closed" : ", open");
  });
  CAPTURE(outcomes[0].said);
  if (comes) CHECK(outcomes[0].said == "connected, closed");
  if (!comes)
    CHECK_THAT(outcomes[0].said, Catch::Contains("rank 1 did not connect to 127.0.0.1:") &&
                                     Catch::Contains(", closed") && Catch::Contains("GLOO_SOCKET_IFNAME"));
}

TEST_CASE("a rank that has ended is said to have when it is connected to") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 0) return connect_as(board, 0, {1}, Clock::now());
    const int port = sign_of_rank_0(board).at("port").get<int>();
    for (Socket probe = dial(port); probe.fd() >= 0; probe = dial(port)) {
    }
    return connect_as(board, 1, {0}, soon());
  });
  CHECK_THAT(outcomes[1].said,
             Catch::Contains("cannot connect to rank 0 at 127.0.0.1:") && Catch::Contains("which has ended or left"));
}

TEST_CASE("an interface that is not there is named, to the others too") {
  SharedBoard board;
  const auto outcomes = run_ranks(2, [&](int rank) -> std::string {
    if (rank == 0) ::setenv("GLOO_SOCKET_IFNAME", "nowhere0", 1);
    return connect_as(board, rank, {1 - rank}, soon());
  });
  CHECK(outcomes[0].said == "GLOO_SOCKET_IFNAME: no interface nowhere0 with an address is up");
  CHECK(outcomes[1].said == "rank 0 cannot listen: " + outcomes[0].said);
}
