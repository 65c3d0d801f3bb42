#pragma once
// Bytes on their way into a pipe, without waiting: what it does not take goes later.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <functional>
#include <string_view>

#include "rendezvous/base/byte_queue.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class PipeWriter {
 public:
  struct Callbacks {
    std::function<void()> drained{};  // what had to wait has gone; never from within a call
    std::function<void()> broken{};   // nobody reads it
  };
  PipeWriter(boost::asio::io_context& io, Callbacks callbacks);

  void open(UniqueFd pipe);
  void send(std::string_view bytes);
  std::size_t unsent() const { return unsent_.size(); }
  void close();

 private:
  void write();

  Callbacks callbacks_;
  boost::asio::posix::stream_descriptor pipe_;
  ByteQueue unsent_{};
  bool waits_ = false;
};

}  // namespace dtrain::launcher
