#pragma once
// Connects to the first of several addresses that answers; nothing waits for it.
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain {

class Dial {
 public:
  struct Connection {
    UniqueFd socket;  // non-blocking
    std::string address;
  };
  using Done = std::function<void(Result<Connection>)>;

  explicit Dial(boost::asio::io_context& io) : io_(io) {}
  ~Dial() { cancel(); }
  Dial(const Dial&) = delete;
  Dial& operator=(const Dial&) = delete;

  // Try numeric addresses one after the other, each for at most three seconds. `done` is called once, never from
  // within, with the error that tells most if none answers. A start takes the place of the one before.
  void start(const std::vector<std::string>& addresses, std::uint16_t port, Done done);
  void cancel();

 private:
  struct Attempt;
  boost::asio::io_context& io_;
  std::shared_ptr<Attempt> attempt_;
};

}  // namespace dtrain
