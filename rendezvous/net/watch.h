#pragma once
// A descriptor on an event loop.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain {

// Error: the kernel has no memory to watch it; then it is closed. (Asio's own constructor throws, and leaves it open.)
inline Result<boost::asio::posix::stream_descriptor> watch_on(boost::asio::io_context& io, UniqueFd fd) {
  boost::asio::posix::stream_descriptor watched(io);
  boost::system::error_code failed;
  watched.assign(fd.get(), failed);
  if (failed) return system_error("cannot watch the connection", failed.value());
  fd.release();
  return watched;
}

}  // namespace dtrain
