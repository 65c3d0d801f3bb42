// See free_port.h.
#include "test/unit/strategies/free_port.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <fstream>
#include <string>

#include "test/support/catch.h"
#include "test/unit/strategies/ranks.h"

using namespace dtrain;

namespace {

int stream_socket() { return ::socket(AF_INET, SOCK_STREAM, 0); }

bool bind_at(int fd, std::uint32_t ip, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(ip);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
}

void into_own_network() {
  ifreq loopback{};
  std::string("lo").copy(loopback.ifr_name, IFNAMSIZ - 1);
  loopback.ifr_flags = IFF_UP;
  if (::unshare(CLONE_NEWNET) != 0 || ::ioctl(stream_socket(), SIOCSIFFLAGS, &loopback) != 0)
    throw std::runtime_error("no network namespace");
}

}  // namespace

TEST_CASE("a free port is nobody's on any address") {
  const auto outcomes = test::run_ranks(1, [](int) {
    into_own_network();
    std::ofstream("/proc/sys/net/ipv4/ip_local_port_range") << "40000 40063";
    // All but one are on another address of the loopback.
    for (int port = 40000; port < 40063; ++port) {
      if (!bind_at(stream_socket(), INADDR_LOOPBACK + 1, port)) throw std::runtime_error("no port to occupy");
    }
    const int port = test::free_port();
    const int server = stream_socket();
    const int on = 1;
    ::setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return std::to_string(port) + (bind_at(server, INADDR_ANY, port) ? " is free" : " is taken");
  });
  test::require_all_returned(outcomes);
  CHECK(outcomes[0].said == "40063 is free");
}
