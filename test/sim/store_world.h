#pragma once
// A job's worker store as it is: StoreService with its front, links, relays, and the store behind a witness, each node
// on an event loop of its own, which is given one handler after the other. Only the kernel's part is the world's: it
// passes on bytes in pieces between pairs of local sockets, cuts links at one end or both, lets clients come and
// vanish, and begins rounds, one node after the other. Nothing depends on time. When all is well again, every request
// has been answered, and nobody waits for a key that is there.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/unique_fd.h"
#include "rendezvous/store_server/store_service.h"
#include "test/sim/store_witness.h"

namespace dtrain::sim {

class StoreWorld {
 public:
  struct Tally {
    std::uint64_t clients = 0, requests = 0, woken = 0, refused = 0, rounds = 0, cuts = 0;
    Tally& operator+=(const Tally& other);
  };

  explicit StoreWorld(std::uint64_t seed);
  // Throws StoreBroken when something must not be.
  void run();
  const std::string& trace() const { return trace_; }
  const Tally& tally() const { return tally_; }

 private:
  struct Node {
    boost::asio::io_context io{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> stays{io.get_executor()};
    StoreOptions options;
    std::unique_ptr<StoreService> service;  // the first node's has the store
    std::uint64_t round = 0;                // 0: none
    bool due = true;                        // it has yet to begin the job's round
    bool lost = false;                      // its link
    bool may_lose = false;                  // it
    std::uint64_t begun = 0;                // how many rounds the host had begun when the link was made
  };
  struct Client : StoreClient {
    UniqueFd socket;
    std::size_t written = 0;  // greeting included
    bool may_be_refused = false;
  };
  struct Way {
    std::string held;
    bool ended = false, shut = false;
  };
  struct Link {
    std::size_t node = 0;
    UniqueFd edge, host;  // the world's ends
    UniqueFd arriving;    // the host's, until it has been told
    Way out{}, back{};
    bool silent = false;  // cut at one end, which the other has not noticed
  };

  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  bool one_in(int n) { return draw(1, n) == 1; }
  std::size_t some(std::size_t most) { return std::size_t(draw(1, int(most))); }
  // Of what could be carried now: a few bytes, or all.
  std::size_t a_piece() { return one_in(2) ? some(piece_) : buffer_.size(); }
  std::size_t any_node() { return std::size_t(draw(0, int(nodes_.size()) - 1)); }
  void note(const std::string& text) { trace_ += text + "\n"; }
  Node& host() { return *nodes_[0]; }

  // store_world.cc: the history
  void step();
  void heal();
  void settle();
  void check_told() const;
  void check_answered() const;
  void wake_all();
  void all_leave();

  // store_clients.cc
  void come(std::size_t node);
  void act(Client& client);
  bool may_ask(const Client& client) const;
  void all_ask(std::size_t node);
  void ask(Client& client, const StoreCall& call);
  StoreCall any_call();
  std::string any_key(std::string_view kinds);
  std::vector<std::string> any_keys(std::string_view kinds);
  std::string any_value();
  bool write(Client& client, std::size_t most);
  bool read(Client& client, std::size_t most);
  void vanish(Client& client);
  void may_end(std::size_t node, const std::string& why);

  // store_network.cc
  void make_node(std::size_t number);
  void begin(std::size_t node);
  void renew_host();
  UniqueFd connect(std::size_t node);
  void link_lost(std::size_t node, const std::string& why);
  bool carry(Link& link, bool whole);
  bool carry(UniqueFd& from, UniqueFd& to, Way& way, std::size_t piece);
  void cut();

  std::mt19937_64 random_;
  StoreHostLimits limits_;
  bool limited_ = false, large_ = false;
  int keys_ = 4, window_ = 1;
  std::size_t piece_ = 1, most_clients_ = 1;
  int steps_ = 0, rarely_ = 50;
  StoreWitness* witness_ = nullptr;  // the host's
  std::uint64_t round_ = 1, begun_ = 0;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::list<Link> links_;
  std::list<Client> clients_;  // all that ever were
  std::vector<Client*> here_;  // those with a socket
  std::uint64_t values_ = 0;
  std::vector<char> buffer_;  // what is read at once
  Tally tally_;
  std::string trace_;
};

}  // namespace dtrain::sim
