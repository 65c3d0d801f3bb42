#pragma once
// What front and agent say to each other over a SOCK_SEQPACKET pair: one message a packet. Both ends are forks of one
// binary, so there is no version and no byte order.
#include <cstdint>
#include <optional>

namespace dtrain::launcher {

struct FrontMessage {
  enum class Op : int32_t {
    // front -> agent
    signal,       // this signal arrived, for the workers
    stop,         // a request to end the job, by this signal
    stop_orphan,  // the same for this node alone: whoever has started it for the job is gone
    stop_again,   // a further request, which does not wait
    suspend,      // Ctrl-Z: stop the workers and answer `suspended` with the same value
    resume,       // the job was continued
    // agent -> front
    suspended,         // the answer to `suspend`: all processes of the round are stopped, or do not stop
    attached_stopped,  // the attached worker was stopped from its terminal; its pid
    attached_waits,    // the attached worker was stopped because it was not in the foreground; its pid
  } op{};
  int32_t value = 0;  // the signal, a pid, or the number of the suspension
};

// A message that finds no room, or nobody at the other end, is dropped.
void send_to(int socket, const FrontMessage& message);

// The next message, without waiting. Empty: there is none, or the other end is gone.
std::optional<FrontMessage> receive_from(int socket);

}  // namespace dtrain::launcher
