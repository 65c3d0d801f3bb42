#pragma once
// The one port of a job that other hosts reach. A connection there is nobody's until it has proved, by TLS, that it has
// the job's credential and what it is for; then it is handed over. Before, no byte of it is looked at but by TLS; or,
// where MUNGE hands the secret out, compared with the eight of a request for it (munge_exchange.h).
//
// Who only connects, sends garbage, or takes its time, costs a descriptor for some seconds: their number and their time
// are limited, and where room is needed one of the host that most of them come from goes, the one that has been there
// longest. Members are not touched.
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/base/report_limit.h"
#include "rendezvous/base/tcp_ends.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/credentials/link_credential.h"
#include "rendezvous/munge/munge_desk.h"
#include "rendezvous/net/acceptor.h"
#include "rendezvous/tls/link_socket.h"

namespace dtrain {

// Why a connection is turned away that begins as clients of torch's own store do, where no worker can be.
inline constexpr const char* kTorchrunKnocks =
    "it is torchrun's, or another client of torch's store: all nodes need the same launcher";

class OuterListener {
 public:
  static constexpr std::size_t kMostUnknown = 1024;
  // kMostUnknown, but at most a quarter of the descriptors that this process may have: members and workers need theirs.
  static std::size_t room_for_unknown();

  using Taker = std::function<void(LinkSocket socket, std::string received)>;
  struct Options {
    std::string job;
    // With a credential: connections of every job that has it; `job` is not used.
    bool any_job = false;
    // Whether enough was received of a connection that is known to hand it over. Empty: always.
    std::function<bool(const LinkName& link, std::string_view received)> enough{};
    // What the job's agents know each other by. None: plain connections (--insecure), whose first byte tells what they
    // are for.
    std::optional<LinkCredential> credential{};
    // Gives a credential to those who ask for the secret by MUNGE. Null: nobody gets one.
    std::shared_ptr<MungeDesk> munge{};
    // Whoever has come for rounds, and for the store; what was received (plaintext) begins with the greeting.
    Taker agent;
    Taker store;
    // Whoever has come for an engine. Empty: nobody comes.
    Taker engine{};
    // A connection that looks like a worker's: ask the other agents whose it is, leaving its bytes unread. If one of
    // them vouches for it, it goes to `worker`. Empty: a connection that looks like a worker's is a stranger's.
    std::function<void(const TcpEnds& ends, std::function<void(bool)> answer)> vouch{};
    std::function<void(UniqueFd)> worker{};
    // One line for each connection that is turned away for a fault; at most five in ten seconds, and none twice
    // in a row. May be empty.
    std::function<void(const std::string& line)> log{};
    // Connections at a time that have not proved who they are.
    std::size_t most_unknown = room_for_unknown();
    std::chrono::milliseconds longest_unknown{3000};
    // Thousands of nodes may come in one moment. For this long after its coming no connection has to make room, and the
    // others wait in the kernel's queue.
    std::chrono::milliseconds least_unknown{100 * room_for_unknown() / kMostUnknown};
  };

  // `listener`: a listening, non-blocking socket.
  OuterListener(boost::asio::io_context& io, UniqueFd listener, Options options);
  ~OuterListener();
  OuterListener(const OuterListener&) = delete;
  OuterListener& operator=(const OuterListener&) = delete;

  // Turn away workers that nobody has vouched for yet: a new round begins, and they are of the one before.
  void drop_workers();
  std::size_t unknown_connections() const { return unknown_.size(); }

 private:
  struct Unknown;
  using UnknownPtr = std::shared_ptr<Unknown>;

  void admit(UniqueFd fd);
  bool make_room();
  UnknownPtr who_makes_room() const;
  UnknownPtr forget(const UnknownPtr& peer);
  void wait_readable(const UnknownPtr& peer);
  void wait_writable(const UnknownPtr& peer);
  void readable(const UnknownPtr& peer);
  std::string judge_first_bytes(Unknown& peer) const;
  void ask_for_voucher(const UnknownPtr& peer);
  void vouched(const UnknownPtr& peer, bool yes);
  void read_request(const UnknownPtr& peer);
  void answer_request(const UnknownPtr& peer, const Result<std::string>& credential);
  void hand_over(const UnknownPtr& peer);
  void drop(const UnknownPtr& peer, const std::string& why);
  void arm_deadline();
  void report(const std::string& line);

  boost::asio::io_context& io_;
  Acceptor acceptor_;
  const Options options_;
  boost::asio::steady_timer deadline_;
  bool deadline_armed_ = false;
  std::list<UnknownPtr> unknown_;                 // longest there first
  std::map<std::string, std::size_t> came_from_;  // how many of them from each address
  ReportLimit reports_{5};
  // Handlers that are already on their way when this goes must not touch it.
  const std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace dtrain
