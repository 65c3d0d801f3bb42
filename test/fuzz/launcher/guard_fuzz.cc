// Fuzzes what the guard reads: packets of any size, and a worker's argv and environment from a descriptor that may hold
// anything.
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/guard/guard_protocol.h"
#include "rendezvous/base/check.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

std::vector<std::string> words(char** strings) {
  std::vector<std::string> out;
  for (; *strings != nullptr; ++strings) out.emplace_back(*strings);
  return out;
}

void check_payload(std::string_view bytes) {
  const UniqueFd fd(::memfd_create("payload", MFD_CLOEXEC));
  DT_CHECK(::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "it is written");
  ExecPayload payload;
  if (!payload.map(fd.get())) return;
  const std::vector<std::string> argv = words(payload.argv()), env = words(payload.envp());
  DT_CHECK(!argv.empty(), "there is something to execute");

  const auto again = write_exec_payload(argv, env);
  ExecPayload second;
  DT_CHECK(again.ok() && second.map(again->get()), "what was read can be written");
  DT_CHECK(words(second.argv()) == argv && words(second.envp()) == env, "and is the same");
}

void check_packet(std::string_view bytes, std::size_t fd_count) {
  int ends[2];
  DT_CHECK(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "there are descriptors left");
  const UniqueFd ours(ends[0]), theirs(ends[1]);
  ReceivedGuardMessage got;
  DT_CHECK(receive_guard_message(theirs.get(), got) == Receive::again, "nothing is there yet");
  if (bytes.size() >= sizeof(GuardMessage)) {
    GuardMessage message;
    std::memcpy(&message, bytes.data(), sizeof message);
    const int fds[] = {0, 1, 2, 0};
    DT_CHECK(send_guard_message(ours.get(), message, fds, fd_count % 5) == 0, "it is sent");
    DT_CHECK(receive_guard_message(theirs.get(), got) == Receive::message, "it arrives");
    DT_CHECK(std::memcmp(&got.message, &message, sizeof message) == 0, "it is the same");
    for (std::size_t i = 0; i < kMaxPassedFds; ++i)
      DT_CHECK((got.fds[i].get() >= 0) == (i < fd_count % 5), "with its descriptors");
    static_cast<void>(describe(exit_status_of(message)));
  }
  if (bytes.empty() || bytes.size() == sizeof(GuardMessage)) return;
  DT_CHECK(::send(ours.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()), "sent");
  DT_CHECK(receive_guard_message(theirs.get(), got) == Receive::closed, "no other size is a message");
}

}  // namespace

// Byte 0: how many descriptors go beside a packet; the rest: a payload, and a packet.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  check_payload(bytes);
  check_packet(bytes, data[0]);
  return 0;
}
