// Messages; see tcp_links.h.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "strategies/comm/base/interrupt.h"
#include "strategies/comm/tcp/tcp_links.h"

namespace dtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kMagic = 0x6474726d;

// Before each message.
struct Header {
  std::uint32_t magic = kMagic;
  CallOrigin origin;
  std::uint64_t number = 0;
  OpDescriptor called;
  std::uint64_t bytes = 0;
};

// A message on its way: `done` bytes of its header and data were moved.
template <class Byte>
struct Message {
  Header header;
  std::span<Byte> data;
  std::size_t done = 0;

  std::size_t size() const { return sizeof header + data.size(); }
  // What is left of the header and of the data.
  std::array<iovec, 2> rest() {
    const std::size_t of_header = std::min(done, sizeof header), of_data = done - of_header;
    const auto* from = data.data() + of_data;
    return {iovec{reinterpret_cast<char*>(&header) + of_header, sizeof header - of_header},
            iovec{const_cast<std::byte*>(from), data.size() - of_data}};
  }
};

// All messages in one direction with one rank; messages[at] is the first that is not over.
template <class Byte>
struct ExchangeRow {
  std::vector<Message<Byte>> messages;
  std::size_t at = 0;

  bool over() const { return at == messages.size(); }
  // Move what is left of that message, and return the system call's result.
  template <class Move>
  ssize_t move(Move move) {
    auto parts = messages[at].rest();
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t n = move(&message);
    if (n > 0) messages[at].done += static_cast<std::size_t>(n);
    return n;
  }
  void pass() {
    if (messages[at].done == messages[at].size()) ++at;
  }
};

}  // namespace

class TcpLinks::Exchange {
 public:
  Exchange(TcpLinks& links, const CollectiveCall& call, const std::vector<Send>& sends,
           const std::vector<Receive>& receives)
      : links_(links), call_(call), blame_(call.limit.deadline(), true) {
    for (const Send& send : sends) flow(send.peer).out.messages.push_back({header(send.data.size()), send.data});
    for (const Receive& receive : receives) flow(receive.peer).in.messages.push_back({{}, receive.into});
  }

  void run() {
    next_look_ = Clock::now() + kLookAround;
    links_.wait_.is_missed();
    while (!advance()) {
      poll_until(std::min(next_look_, blame_.due()));
      links_.heed(call_.name());
      find_gone();
      if (Clock::now() >= std::min(next_look_, blame_.due())) look_around();
    }
  }

 private:
  struct Flow {
    Link* link = nullptr;
    ExchangeRow<const std::byte> out;
    ExchangeRow<std::byte> in;
    std::optional<Clock::time_point> closed;  // when this rank noticed that the connection is closed

    bool over() const { return out.over() && in.over(); }
  };

  Flow& flow(int peer) {
    Flow& one = flows_[peer];
    one.link = &links_.links_.at(peer);
    return one;
  }

  Header header(std::size_t bytes) const {
    Header one;
    one.origin = call_.origin;
    one.number = call_.number;
    one.called = call_.descriptor;
    one.bytes = bytes;
    return one;
  }

  // Move what can be moved now. True when all messages are over.
  bool advance() {
    bool over = true;
    for (auto& [peer, flow] : flows_) {
      if (!flow.over() && !flow.closed) advance(peer, flow);
      over = over && flow.over();
    }
    return over;
  }

  void advance(int peer, Flow& flow) {
    const int fd = flow.link->lanes.data.fd();
    const auto goes_on = [&flow](ssize_t n, bool end_is_zero) {
      if (n > 0) return true;
      const bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
      if (!later && (n < 0 || end_is_zero)) flow.closed = Clock::now();
      return false;
    };
    while (!flow.out.over() && !flow.closed &&
           goes_on(flow.out.move([fd](msghdr* m) { return ::sendmsg(fd, m, MSG_NOSIGNAL | MSG_DONTWAIT); }), false))
      flow.out.pass();
    // Bytes that came before the end of the connection are read, although nothing can be sent any more.
    if (flow.in.over()) return;
    while (!flow.in.over() && goes_on(flow.in.move([fd](msghdr* m) { return ::recvmsg(fd, m, MSG_DONTWAIT); }), true)) {
      compare(peer, flow.in.messages[flow.in.at]);
      flow.in.pass();
    }
  }

  void compare(int peer, const Message<std::byte>& message) const {
    const Header& header = message.header;
    if (message.done < sizeof header) return;
    const bool same = header.magic == kMagic && header.number == call_.number && header.called == call_.descriptor;
    if (same && header.bytes == message.data.size()) return;
    // Both ends name the same culprit.
    const int own = links_.rank_, culprit = std::max(own, peer);
    const Failure failure{FailureKind::mismatched, culprit};
    if (header.magic != kMagic)
      links_.wait_.fail(failure, call_.name(), fmt::format("rank {} sent something else than a message", peer));
    if (same)
      links_.wait_.fail(failure, call_.name(),
                        fmt::format("rank {} has {} bytes for rank {}, which expects {}", peer, header.bytes, own,
                                    message.data.size()));
    const std::string ours = call_.text(), theirs = called(header);
    links_.wait_.fail(failure, fmt::format("collective {}", call_.number),
                      fmt::format("rank {} called {}, rank {} called {}", std::min(own, peer),
                                  own < peer ? ours : theirs, culprit, own < peer ? theirs : ours));
  }

  std::string called(const Header& header) const {
    const std::string text = CollectiveCall::text(header.called, header.origin);
    return header.number == call_.number ? text : fmt::format("{} as its collective {}", text, header.number);
  }

  void poll_until(Clock::time_point moment) const {
    std::vector<pollfd> polls;
    for (const auto& [peer, flow] : flows_) {
      const int events = (flow.in.over() ? 0 : POLLIN) | (flow.out.over() ? 0 : POLLOUT);
      polls.push_back({events == 0 || flow.closed ? -1 : flow.link->lanes.data.fd(), static_cast<short>(events), 0});
    }
    links_.watch_words(polls);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(moment - Clock::now()).count();
    ::poll(polls.data(), polls.size(), static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX)));
  }

  void find_gone() const {
    for (const auto& [peer, flow] : flows_) {
      const State state = flow.link->state;
      // A rank that left or is gone reads nothing more; the bytes that it sent come before the end of its connection.
      const bool gone =
          !flow.over() && state != State::here && (flow.closed || !flow.out.over() || state == State::unreachable);
      const bool silent = !flow.over() && flow.closed && Clock::now() >= *flow.closed + kLastWord;
      if (gone || silent)
        links_.wait_.fail({state == State::left ? FailureKind::peer_left : FailureKind::peer_died, peer}, call_.name(),
                          "");
    }
  }

  void look_around() {
    const auto now = Clock::now();
    next_look_ = now + kLookAround;
    links_.wait_.check(call_.name());
    if (links_.wait_.is_missed()) blame_.hurry(now);
    check_interrupt();
    if (Clock::now() >= blame_.due()) time_out();
  }

  void time_out() {
    if (advance()) return;  // the rest has come meanwhile
    std::vector<int> missing;
    for (const bool silent : {true, false}) {  // first the ranks that have not sent all
      for (const auto& [peer, flow] : flows_) {
        if (!flow.over() && flow.in.over() != silent) missing.push_back(peer);
      }
    }
    const auto answered = [this](int peer) { return links_.links_.at(peer).answered.load(); };
    const auto [guilty, ask] = blame_.judge(missing, answered, Clock::now());
    if (guilty) links_.wait_.fail({FailureKind::timed_out, *guilty}, call_.name(), "");
    if (ask) links_.ask(missing);
  }

  TcpLinks& links_;
  const CollectiveCall& call_;
  Blame blame_;
  std::map<int, Flow> flows_;
  Clock::time_point next_look_;
};

void TcpLinks::exchange(const CollectiveCall& call, const std::vector<Send>& sends,
                        const std::vector<Receive>& receives) {
  Exchange(*this, call, sends, receives).run();
}

}  // namespace dtrain
