#pragma once
// The socket at which an agent, or a server, tells this user's `dtrain status` what it is doing: who connects gets one
// answer and the end of the connection, and is not listened to. On the event loop; while nobody asks it costs nothing.
// Tested by test/process/launcher/status_test.py.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/net/acceptor.h"

namespace dtrain::launcher {

class StatusSocket {
 public:
  // Call it once with the answer, now or later.
  using Reply = std::function<void(const std::string& json)>;
  using Ask = std::function<void(Reply)>;

  // Null: no folder for it can be had, and `dtrain status` will not know of this process.
  static std::unique_ptr<StatusSocket> open(boost::asio::io_context& io, Ask ask);
  ~StatusSocket();
  StatusSocket(const StatusSocket&) = delete;
  StatusSocket& operator=(const StatusSocket&) = delete;

  const std::string& path() const { return path_; }

 private:
  StatusSocket(boost::asio::io_context& io, boost::asio::posix::stream_descriptor listener, std::string path, Ask ask);
  void accepted(UniqueFd socket);

  const std::string path_;
  const Ask ask_;
  Acceptor acceptor_;
};

}  // namespace dtrain::launcher
