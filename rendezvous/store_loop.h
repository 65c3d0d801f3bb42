#pragma once
// StoreLoop is the front of a store: it accepts and serves clients on one io_context, and all of it runs on that
// context's thread. Bytes are read straight into one buffer for all connections, given to the backend, and the replies
// written at once; only what a full socket would not take is kept.
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

#include "rendezvous/base/report_limit.h"
#include "rendezvous/base/unique_fd.h"
#include "rendezvous/byte_queue.h"
#include "rendezvous/peer_uid.h"
#include "rendezvous/store_backend.h"
#include "rendezvous/store_host.h"

namespace dtrain {

// Takes what the backend answers to connections that are none of the front's: those behind links.
class StoreOutlet {
 public:
  virtual ~StoreOutlet() = default;
  virtual void send(ConnectionId connection, std::string_view bytes) = 0;
  virtual void close(ConnectionId connection, std::string_view reason) = 0;
  virtual void describe(StoreStats& stats) const = 0;
};
// The bit that such a connection's id has.
inline constexpr ConnectionId kBehindLink = ConnectionId{1} << 63;

class StoreLoop {
 public:
  // `listener` is a listening, non-blocking socket, or none; `peer_uid` is set when options.allowed_uid is. The backend
  // must live as long.
  StoreLoop(boost::asio::io_context& io, UniqueFd listener, std::optional<PeerUid> peer_uid,
            const StoreHost::Options& options, StoreBackend& backend);

  // Serve a connection whose owner has been checked.
  void adopt(UniqueFd fd);
  // Begin to accept. `elsewhere` may be null.
  void start(StoreOutlet* elsewhere);
  // Close every connection.
  void close_all();
  // The backend is ready again.
  void resume();
  // For the backend and the links: carry out and clear `actions`; bytes for a client; the end of one, with the reason.
  void carry_out(StoreActions& actions);
  void reply(ConnectionId connection, std::string_view bytes);
  void end(ConnectionId connection, std::string_view reason);
  // One line to the log, unless there have been many.
  void report(std::string_view line);
  // Make the statistics of this moment those that stats() gives.
  void publish();
  // Any thread.
  StoreStats stats() const;

 private:
  struct Session {
    Session(boost::asio::io_context& io, UniqueFd fd, ConnectionId number, const StoreWireLimits& limits)
        : id(number), socket(io, fd.release()), greeting(std::in_place, limits) {}

    ConnectionId id;
    boost::asio::posix::stream_descriptor socket;
    std::optional<StoreDecoder> greeting;  // until it has greeted; then the backend decodes
    ByteQueue output;                      // what the socket would not take yet
    std::size_t accounted = 0;             // its share of buffered_bytes_
    bool heard = false;                    // something has come
    bool waits_readable = false;
    bool waits_writable = false;
    bool paused = false;  // not read from until output has drained
    std::chrono::steady_clock::time_point deadline{};
    std::optional<std::list<ConnectionId>::iterator> silent;

    bool open() const { return socket.is_open(); }
  };
  using SessionPtr = std::shared_ptr<Session>;

  void wait_for_connection();
  void accept_ready();
  bool accept_one();
  bool out_of_descriptors(int error);
  void admit(UniqueFd fd);
  void let_in(UniqueFd fd);
  bool shed_silent(const char* reason);
  void arm_greeting_deadline();
  void greeting_deadline();

  void wait_readable(const SessionPtr& session);
  void readable(const SessionPtr& session);
  bool consume(const SessionPtr& session, std::string_view input);
  bool greet(const SessionPtr& session, std::string_view& input);
  void hand_over(const SessionPtr& session, std::string_view received);
  void carry_out(StoreActions& actions, const SessionPtr& from);
  void send(Session& session, std::string_view bytes);
  void wait_writable(const SessionPtr& session);
  void writable(const SessionPtr& session);
  bool account(Session& session);
  void forget_if_alone();
  void close(Session& session, std::string_view reason);

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor listener_;
  std::optional<PeerUid> peer_uid_;
  const StoreHost::Options& options_;
  StoreBackend& backend_;
  StoreOutlet* elsewhere_ = nullptr;
  boost::asio::steady_timer greeting_timer_;
  boost::asio::steady_timer accept_timer_;
  bool greeting_timer_armed_ = false;
  bool accepting_ = false;

  StoreActions actions_;
  std::unordered_map<ConnectionId, SessionPtr> sessions_;
  std::list<ConnectionId> silent_;     // no greeting yet, longest silent first
  std::vector<ConnectionId> stalled_;  // have sent requests that the backend is not ready for
  ConnectionId last_id_ = 0;
  std::vector<char> buffer_;
  std::size_t buffered_bytes_ = 0;  // of all sessions: unfinished requests and unsent replies

  ReportLimit reports_{10};

  StoreStats counters_;
  mutable std::mutex published_mutex_;
  StoreStats published_;
};

}  // namespace dtrain
