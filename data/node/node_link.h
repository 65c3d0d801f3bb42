#pragma once
// How the ranks of a node find their reader, get its memory, wake each other, and see that one has gone: a Unix socket
// with a name that is no file, and so ends with its process.
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "data/node/region.h"
#include "data/node/stop_bell.h"

namespace dtrain::data {

// What the reader says to one who asks: that it may take part as this member, or why not. full: the reader's process
// can have no more descriptors.
struct NodeAnswer {
  enum Kind : std::uint32_t { welcome, again, late, full } kind = late;
  std::uint32_t member = 0;
  RegionSize size = {};
};

// The address of a name of any length.
class NodeName {
 public:
  explicit NodeName(const std::string& text);
  std::span<const char> bytes() const { return {bytes_, sizeof bytes_}; }

 private:
  char bytes_[48];
};

// A socket that ends for the other side, too, even if a forked child still has it.
class NodeSocket {
 public:
  explicit NodeSocket(OwnedFd socket) : socket_(std::move(socket)) {}
  NodeSocket(NodeSocket&&) noexcept = default;
  NodeSocket& operator=(NodeSocket&&) noexcept = default;
  ~NodeSocket();
  int get() const { return socket_.get(); }

 private:
  OwnedFd socket_;
};

// One end of a connection. It never blocks but in receive(). connect() and receive() throw std::system_error if this
// process can have no more descriptors.
class NodeLink {
 public:
  explicit NodeLink(OwnedFd socket) : socket_(std::move(socket)) {}

  // Nothing: nobody reads under this name.
  static std::optional<NodeLink> connect(const NodeName& name);
  int fd() const { return socket_.get(); }

  // A member asks, the reader answers. With `welcome` the memory goes along.
  bool ask(int rank);
  bool answer(const NodeAnswer& answer, int memory);
  std::optional<int> asked();
  struct Received {
    NodeAnswer answer;
    OwnedFd memory;
  };
  // Nothing: the reader has gone, or has not answered in time, or `stop`.
  std::optional<Received> receive(std::chrono::milliseconds limit, const StopBell& stop);

  // The other end wakes up, or does not sleep next time.
  void ring();
  // Takes the rings that have come. False: the other end has gone.
  bool answered_bells();

 private:
  NodeSocket socket_;
};

// Where members come to. It keeps a descriptor in reserve: without one, who waits could not come, and would not go.
class NodeDoor {
 public:
  // Nothing: another process reads under this name. Throws std::system_error if this process can have no more
  // descriptors; so does next(), if there was none to keep in reserve either.
  static std::optional<NodeDoor> open(const NodeName& name);
  NodeDoor(NodeDoor&&) noexcept = default;
  NodeDoor& operator=(NodeDoor&&) noexcept = default;
  // Who waits at it hears that it has closed.
  ~NodeDoor();
  int fd() const { return socket_.get(); }
  // One who waits at the door and is the same user. Nothing: there is none.
  std::optional<NodeLink> next();
  // Who came last has the reserve's descriptor, and cannot stay: the next one could not even hear why.
  bool is_full() const { return !reserve_; }

 private:
  explicit NodeDoor(OwnedFd socket) : socket_(std::move(socket)) {}
  OwnedFd accepted();
  NodeSocket socket_;
  OwnedFd reserve_;
};

}  // namespace dtrain::data
