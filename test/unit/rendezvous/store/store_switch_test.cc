// To whom the store's answers go.
#include "rendezvous/store/store_switch.h"

#include <string>
#include <utility>
#include <vector>

#include "test/support/catch.h"

using namespace dtrain;

namespace {

struct Outlet final : StoreOutlet {
  void send(ConnectionId connection, std::string_view bytes) override { said(connection, bytes); }
  void close(ConnectionId connection, std::string_view reason) override {
    said(connection, "closed " + std::string(reason));
  }
  void describe(StoreStats& stats) const override { stats.connections_open += lines.size(); }
  std::size_t held_bytes() const override { return lines.size(); }
  void said(ConnectionId connection, std::string_view what) {
    lines.push_back(std::to_string(connection & ~kBehindLink) + " " + std::string(what));
  }
  void hand_over(ConnectionId, std::string&& bytes) override { kept = std::move(bytes); }
  std::vector<std::string> lines;
  std::string kept;
};

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("answers go to clients, or over links, by the connection's id and in order") {
  Outlet clients, links;
  StoreSwitch outlets;
  outlets.set(&clients, &links);
  StoreActions actions;
  actions.to(1) += "a";
  actions.to(kBehindLink | 1) += "b";
  actions.to(2) += "c";
  actions.close(kBehindLink | 1, "full");
  actions.close(2, "");
  outlets.carry_out(actions);
  CHECK(clients.lines == Lines{"1 a", "2 c", "2 closed "});
  CHECK(outlets.held_bytes() == clients.lines.size() + links.lines.size());
  CHECK(links.lines == Lines{"1 b", "1 closed full"});
  outlets.carry_out(actions);  // they are done
  CHECK(clients.lines.size() == 3);

  StoreStats stats;
  outlets.describe(stats);
  CHECK(stats.connections_open == 5);
}

TEST_CASE("a long answer reaches its client in the memory in which it was made") {
  Outlet clients;
  StoreSwitch outlets;
  outlets.set(&clients, nullptr);
  StoreActions actions;
  std::string& reply = actions.to(1);
  reply.assign(StoreSwitch::kMuch + 1, 'v');
  const char* const made = reply.data();
  outlets.carry_out(actions);
  CHECK(clients.kept.size() == StoreSwitch::kMuch + 1);
  CHECK(clients.kept.data() == made);
  CHECK(actions.send_count() == 0);
  CHECK(actions.size() == 0);

  actions.to(2) += "a";
  outlets.carry_out(actions);
  CHECK(clients.lines == Lines{"2 a"});
}

TEST_CASE("a store without links has clients alone") {
  Outlet clients;
  StoreSwitch outlets;
  outlets.set(&clients, nullptr);
  StoreActions actions;
  actions.to(7) += "a";
  outlets.carry_out(actions);
  CHECK(clients.lines == Lines{"7 a"});
  StoreStats stats;
  outlets.describe(stats);
  CHECK(stats.connections_open == 1);
}
