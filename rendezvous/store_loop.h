#pragma once
// StoreLoop accepts and serves the store's connections on one io_context. All of it runs on that context's thread.
// Bytes are read straight into one buffer for all connections, decoded, carried out, and the replies written at once;
// only what a full socket would not take is kept.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/peer_uid.h"
#include "rendezvous/store_core.h"
#include "rendezvous/store_host.h"
#include "rendezvous/store_wire.h"

namespace dtrain {

class StoreLoop {
 public:
  // `listener` is a listening, non-blocking socket; `peer_uid` is set when options.allowed_uid is.
  StoreLoop(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
            StoreHost::Options options);

  // Begin to accept.
  void start();
  // Close every connection and forget every key.
  void renew();
  // Any thread.
  StoreStats stats() const;

 private:
  struct Session;
  using SessionPtr = std::shared_ptr<Session>;

  void wait_for_connection();
  void accept_ready();
  bool accept_one();
  bool out_of_descriptors(int error);
  void admit(UniqueFd fd);
  bool shed_silent(const char* reason);
  void arm_greeting_deadline();
  void greeting_deadline();

  void wait_readable(const SessionPtr& session);
  void readable(const SessionPtr& session);
  bool consume(const SessionPtr& session, std::string_view input);
  void hand_over(const SessionPtr& session, std::string_view received);
  void carry_out(const SessionPtr& from);
  void send(Session& session, std::string_view bytes);
  void wait_writable(const SessionPtr& session);
  void writable(const SessionPtr& session);
  bool account(Session& session);
  void close(Session& session, std::string_view reason);
  void report(const Session* session, std::string_view reason);
  void publish();

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor listener_;
  std::optional<PeerUid> peer_uid_;
  const StoreHost::Options options_;
  boost::asio::steady_timer greeting_timer_;
  boost::asio::steady_timer accept_timer_;
  bool greeting_timer_armed_ = false;
  bool accepting_ = false;

  StoreCore core_;
  StoreActions actions_;
  std::unordered_map<ConnectionId, SessionPtr> sessions_;
  std::list<ConnectionId> silent_;  // no greeting yet, longest silent first
  ConnectionId last_id_ = 0;
  std::vector<char> buffer_;
  std::size_t buffered_bytes_ = 0;  // of all sessions: unfinished requests and unsent replies

  std::chrono::steady_clock::time_point log_window_{};
  int log_lines_ = 0;

  StoreStats counters_;
  mutable std::mutex published_mutex_;
  StoreStats published_;
};

}  // namespace dtrain
