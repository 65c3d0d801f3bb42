// store_node: one node's part of the store across nodes, as an agent has it, for measurements.
//   store_node host TOKEN_FILE          has the store; prints the port of its workers and that of other nodes
//   store_node edge TOKEN_FILE PORT     is an edge of that; prints the port of its workers
//   store_node echo                     answers whatever comes with as many bytes as an ADD's reply has, by plain
//                                       recv and send: what the machine takes for one round trip; prints its port
// TOKEN_FILE `-`: the links are in clear. Serves until its standard input ends.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "rendezvous/agent_link/outer_listener.h"
#include "rendezvous/net/listen.h"
#include "rendezvous/store_server/store_host.h"

namespace {

namespace asio = boost::asio;
using namespace dtrain;

constexpr std::uint64_t kRound = 1;

template <class T>
T must(Result<T> result) {
  if (result) return std::move(result).value();
  std::fprintf(stderr, "store_node: %s\n", result.error().message.c_str());
  std::exit(1);
}

OuterListener::Options outer_options(const std::optional<JobSecret>& secret, StoreHost& store) {
  OuterListener::Options options;
  options.job = "bench";
  options.credential = secret;
  options.agent = [](const LinkSocket&, const std::string&) {};
  options.store = [&store](LinkSocket socket, std::string received) {
    store.adopt_link(std::move(socket.fd), std::move(received), std::move(socket.tls));
  };
  options.log = [](const std::string& line) { std::fprintf(stderr, "store_node: %s\n", line.c_str()); };
  return options;
}

void answer_clients(int listener) {
  std::array<char, 4096> buffer{};
  for (pollfd waiting{listener, POLLIN, 0}; ::poll(&waiting, 1, -1) >= 0;) {
    const UniqueFd client(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    while (client && ::recv(client.get(), buffer.data(), buffer.size(), 0) > 0)
      ::send(client.get(), buffer.data(), sizeof(std::int64_t), MSG_NOSIGNAL);
  }
}

int echo() {
  const UniqueFd listener = must(listen_at("127.0.0.1", 0));
  std::printf("%d\n", int{must(port_of_socket(listener.get()))});
  std::fflush(stdout);
  std::thread(answer_clients, listener.get()).detach();
  while (std::getchar() != EOF) {
  }
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (argc == 2 && argv[1] == std::string_view("echo")) return echo();
  if ((mode != "host" || argc != 3) && (mode != "edge" || argc != 4)) {
    std::fprintf(stderr, "store_node: bad arguments; see the top of store_node.cc\n");
    return 2;
  }
  std::optional<JobSecret> secret;
  if (argv[2] != std::string("-")) secret = must(JobSecret::read(argv[2]));
  StoreHost::Options options;
  if (mode == "edge") {
    options.remote.emplace();
    options.remote->address = "127.0.0.1";
    options.remote->port = static_cast<std::uint16_t>(std::atoi(argv[3]));
    if (secret) {
      options.remote->secure = [&secret](std::uint64_t round) {
        return TlsSession::client(*secret, {LinkRole::store, round, "bench"});
      };
    }
  }
  const auto store = must(StoreHost::start(std::move(options)));
  store->begin_round(kRound);

  asio::io_context io(1);
  std::optional<OuterListener> outer;
  if (mode == "host") {
    UniqueFd listener = must(listen_at("127.0.0.1", 0));
    std::printf("%d %d\n", int{store->port()}, int{must(port_of_socket(listener.get()))});
    outer.emplace(io, std::move(listener), outer_options(secret, *store));
  } else {
    std::printf("%d\n", int{store->port()});
  }
  std::fflush(stdout);
  asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  input.async_wait(asio::posix::stream_descriptor::wait_read, [&io](const boost::system::error_code&) { io.stop(); });
  io.run();
  return 0;
}
