// An insider gone wrong, for attack_test.py: has a token, connects to a job's port with a key of its choice, and says
// what belongs to another. usage: link_peer TOKEN-FILE ADDRESS PORT JOB agent|store EPOCH [HEX: what to say]
// Prints what became of it: "refused: why"; "closed", with all that had come back, in hexadecimal digits; or "served",
// with the greeting and the first frame that came after it.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/tls/tls_session.h"

using namespace dtrain;

namespace {

constexpr std::size_t kFirstFrame = 8 + 13;  // with the greeting

std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::strtoul(digits.substr(i, 2).c_str(), nullptr, 16));
  return bytes;
}

std::string hex(const std::string& bytes) {
  std::string digits;
  for (const char byte : bytes) digits += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return digits;
}

int says(const std::string& what) {
  std::puts(what.c_str());
  return 0;
}

void flush(TlsSession& session, int fd) {
  const std::string out = session.take_output();
  if (!out.empty() && ::send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0) std::perror("send");
}

// To the first plaintext or the end.
int talk(TlsSession& session, int fd, const std::string& words) {
  if (!words.empty() && !session.send(words)) return says("cannot speak");
  flush(session, fd);
  std::string plain;
  for (std::array<char, 4096> buffer;;) {
    const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (got <= 0) return says("closed " + hex(plain));
    const auto heard = session.receive({buffer.data(), static_cast<std::size_t>(got)}, plain);
    flush(session, fd);
    if (!heard) return says("refused: " + heard.error().message);
    if (plain.size() >= kFirstFrame && plain[0] == words[0]) return says("served " + hex(plain));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) return 2;
  const auto secret = JobSecret::read(argv[1]);
  if (!secret) return says("no token: " + secret.error().message);
  const LinkRole role = std::string(argv[5]) == "agent" ? LinkRole::agent : LinkRole::store;
  auto session = TlsSession::client(*secret, {role, std::strtoull(argv[6], nullptr, 10), argv[4]});
  if (!session) return says("no session: " + session.error().message);
  const boost::asio::ip::tcp::endpoint to(boost::asio::ip::make_address(argv[2]),
                                          static_cast<std::uint16_t>(std::strtoul(argv[3], nullptr, 10)));
  const UniqueFd fd(::socket(to.protocol().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(fd.get(), to.data(), static_cast<socklen_t>(to.size())) != 0) return says("no connection");
  return talk(*session, fd.get(), argc > 7 ? unhex(argv[7]) : "");
}
