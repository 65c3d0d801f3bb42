#pragma once
// One connection on an event loop, with TLS or in clear: bytes out, bytes in. Whoever speaks a protocol over it derives
// from it and keeps its own frames. A stream is used from the loop's thread, and no hook is called from within a call
// but where that is said.
//
// Bytes are read into one buffer for all streams of a thread, and what is written goes to the socket at once; only what
// a full socket would not take is kept.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rendezvous/base/byte_queue.h"
#include "rendezvous/tls/link_socket.h"

namespace dtrain {

struct LinkStreamLimits {
  std::size_t read_bytes = 16384;  // for one read; at most LinkStream::kMostReadBytes
  // A stream that brings bytes without pause lets the others have their turn after this many reads.
  int reads_per_turn = 1;
  // More bytes that wait to be written make the stream full, and it is so until no more than `drained_bytes` wait.
  std::size_t full_bytes = std::size_t{1} << 20;
  std::size_t drained_bytes = 0;
};

class LinkStream : public std::enable_shared_from_this<LinkStream> {
 public:
  static constexpr std::size_t kMostReadBytes = std::size_t{128} << 10;

  virtual ~LinkStream() = default;
  LinkStream(const LinkStream&) = delete;
  LinkStream& operator=(const LinkStream&) = delete;

  // End the connection at once, without a hook. What a TLS peer needs to know of that is sent if the socket takes it.
  void close();
  bool open() const { return socket_.is_open(); }
  int fd() { return socket_.native_handle(); }
  // More is waiting to be written than a stream should hold; until most of it has been.
  bool full() const { return full_; }

 protected:
  // `limits` must live as long.
  LinkStream(boost::asio::posix::stream_descriptor socket, LinkBytes bytes, const LinkStreamLimits& limits)
      : socket_(std::move(socket)), bytes_(std::move(bytes)), limits_(limits) {}
  LinkStream(boost::asio::io_context& io, LinkSocket socket, const LinkStreamLimits& limits)
      : LinkStream(boost::asio::posix::stream_descriptor(io, socket.fd.release()), LinkBytes(std::move(socket.tls)),
                   limits) {}

  // ---- hooks

  // Bytes that have come, decrypted. They are valid until the hook returns, and no stream may be read in it.
  virtual void received(std::string_view bytes) = 0;
  // How many bytes may be read now. 0: none, until resume().
  virtual std::size_t room() { return limits_.read_bytes; }
  // The loop's turn of reading is over.
  virtual void turn() {}
  // Bytes that had to wait were written.
  virtual void written() {}
  // The stream is no longer full.
  virtual void drained() {}
  // The connection has ended by itself; the last hook. `ended`: the peer has closed it, or it broke, and `reason` says
  // how it broke; `failed`: `reason` says why. The socket is closed.
  virtual void closed(LinkBytes::Status how, const std::string& reason) = 0;

  // ---- in

  // Begin to read, or go on after room() said 0.
  void resume();
  // Read now, not when the loop says that there is something: calls hooks, but not turn().
  void read_now();
  // Read until nothing more is there, at most `reads` times: calls hooks.
  void read_all(int reads);

  // ---- out

  // The socket is still connecting: wait for that, then write what waits, and read.
  void wait_connected();
  // Write at once what the socket takes, and the rest later. A peer that takes nothing more is written nothing: what it
  // said before it left is still read, and the end of that closes the stream.
  void write(std::string_view bytes);
  // The same of much: what has to wait is not copied.
  void hand_over(std::string&& bytes);
  // For those who put bytes into the queue themselves, to be written together at the end of this turn of the loop.
  ByteQueue& queue() { return output_; }
  void write_soon();
  const ByteQueue& queue() const { return output_; }
  // Whether it is of use to write.
  bool writes() const { return open() && !peer_left_ && !finishing_; }
  // What waits is still written, then the peer is told that nothing more comes. What it says is dropped.
  void finish();
  bool finishing() const { return finishing_; }

  // ---- the end

  // The connection has failed, for a reason that the owner knows: calls closed().
  void fail(const std::string& reason) { lost(LinkBytes::Status::failed, reason); }
  // The same, not from within.
  void fail_soon(std::string reason);
  // Give up the connection of a stream without TLS: it goes on elsewhere.
  UniqueFd release() { return UniqueFd(socket_.release()); }

  boost::asio::any_io_executor executor() { return socket_.get_executor(); }
  const LinkBytes& bytes() const { return bytes_; }
  const LinkStreamLimits& limits() const { return limits_; }

 private:
  // Write what the socket takes. True: nothing is left, or nothing more can be written.
  bool write_at_once(std::string_view& bytes);
  void wait_to_write();
  void flush();
  void lost(LinkBytes::Status how, const std::string& reason);
  void wait_writable();
  LinkBytes::Status read(std::size_t most, bool& filled);

  boost::asio::posix::stream_descriptor socket_;
  LinkBytes bytes_;
  const LinkStreamLimits& limits_;
  ByteQueue output_;  // what the socket would not take yet
  bool connecting_ = false;
  bool full_ = false;
  bool finishing_ = false;
  bool peer_left_ = false;  // it takes nothing more
  bool flush_posted_ = false;
  bool waits_readable_ = false;
  bool waits_writable_ = false;
};

}  // namespace dtrain
