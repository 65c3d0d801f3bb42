// Agents of branches that are commands of a shell: what these say, and how they end.
#include "launcher/hosts/branched_agents.h"

#include <chrono>
#include <map>
#include <vector>

#include "launcher/engine_wire/agent_wire.h"
#include "rendezvous/agent_link/relay_frames.h"
#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;
using Catch::Contains;
using Catch::StartsWith;
using What = BranchFrame::What;

namespace {

constexpr const char* kOwnVersion = "dtrain 1.0";

// For printf of a shell.
std::string octal(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += {'\\', char('0' + byte / 64), char('0' + byte / 8 % 8), char('0' + byte % 8)};
  }
  return text;
}

std::string says(const std::string& bytes) { return "printf '" + octal(bytes) + "'; "; }

std::string as_branch() {
  return says("motd\n" + card_line({kOwnVersion, "h", {}}) + "\n") + "read plan; " + says(branch_ready_line() + "\n");
}

rlimit own_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

// What the branch gets, as words of its agent 0.
std::string tells_what_it_gets(const std::string& expected) {
  std::string head = branch_frames(What::out, 0, expected);
  head.resize(kBranchHeadBytes);
  return says(head) + "head -c " + std::to_string(expected.size()) + "; ";
}

std::string all_end() {
  return says(branch_frames(What::ended, 0, "0") + branch_frames(What::ended, 1, "7") +
              branch_frames(What::ended, 2, "-9"));
}

// One command, which is a branch of three agents.
struct Tree {
  boost::asio::io_context io{};
  BranchedAgents agents;
  std::map<int, std::string> said{};  // by stream
  std::map<int, std::string> why{};   // by agent
  std::map<int, int> ends{};          // by agent
  std::vector<int> order{};           // of the ends
  bool takes = true;

  explicit Tree(const std::string& script)
      : agents(io, {sh(script), sh("exit 99"), sh("exit 99")}, 1, kOwnVersion, own_limit()) {
    agents.attach({[this](int stream, std::string_view bytes) {
                     said[stream] += bytes;
                     return takes;
                   },
                   [](int) {},
                   [this](int agent, int status) {
                     CHECK_FALSE(ends.contains(agent));
                     ends[agent] = status;
                     order.push_back(agent);
                   },
                   [this](int agent, const std::string& text) { why[agent] = text; }});
    for (int agent = 0; agent < 3; ++agent) CHECK(agents.start(agent).ok());
  }
  static AgentCommand sh(const std::string& script) { return {{"/bin/sh", "-c", script}, true}; }

  template <class Done>
  void until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done() && io.run_one_until(deadline) > 0) {
    }
    REQUIRE(done());
  }
  void until_over() {
    until([this] { return ends.size() == 3 && !agents.any_runs(); });
  }
};

const std::map<int, int> kAllLost{{0, kRelayLost}, {1, kRelayLost}, {2, kRelayLost}};

}  // namespace

TEST_CASE("what a branch's agents say is theirs, and so are their ends") {
  Tree tree(as_branch() +
            says(branch_frames(What::out, 2, "two\n") + branch_frames(What::err, 1, "one\n") +
                 branch_frames(What::complained, 1, "no ssh")) +
            "echo mine >&2; " + all_end());
  tree.until_over();
  CHECK(tree.said == std::map<int, std::string>{{0, "motd\n"}, {1, "mine\n"}, {3, "one\n"}, {4, "two\n"}});
  CHECK(tree.why == std::map<int, std::string>{{1, "no ssh"}});
  CHECK(tree.ends == std::map<int, int>{{0, 0}, {1, 7}, {2, -9}});
}

TEST_CASE("agents whose branch ends are lost with it, and what they have said is not") {
  Tree tree(as_branch() + says(branch_frames(What::ended, 1, "7") + branch_frames(What::out, 2, "two")) + "exit 255");
  tree.until_over();
  CHECK(tree.said[4] == "two");
  CHECK(tree.ends == std::map<int, int>{{0, 255}, {1, 7}, {2, kRelayLost}});
  CHECK(tree.order == std::vector<int>{1, 0, 2});
  // One that ends well without a word of its agents has not ended well.
  Tree silent(as_branch());
  silent.until_over();
  CHECK(silent.ends == kAllLost);
  Tree never("echo no route >&2; exit 255");
  never.until_over();
  CHECK(never.said == std::map<int, std::string>{{1, "no route\n"}});
  CHECK(never.ends == std::map<int, int>{{0, 255}, {1, kRelayLost}, {2, kRelayLost}});
}

TEST_CASE("who does not speak as a branch is ended") {
  for (const std::string& odd : {std::string("\xff"), branch_frames(What::out, 3, "x"), branch_frames(What::in, 0, "x"),
                                 std::string("\x01\0\0\0\0\xff\0\0\0", 9)}) {
    Tree tree(as_branch() + says(odd) + "exec sleep 50");
    tree.until_over();
    CHECK_THAT(tree.why[0], Contains("is not what dtrain's branch"));
    CHECK(tree.ends == kAllLost);
  }
}

TEST_CASE("a branch of another version is told by its card") {
  const std::string card = card_line({"dtrain 0.9", "h", {}}) + "\n";
  Tree tree(says(card));
  tree.until_over();
  CHECK(tree.said[0] == card);
}

TEST_CASE("a branch gets its plan once it has shown its card, not what reads before that") {
  // dd opens the pipe anew, so only its own reads do not wait.
  Tree tree("dd if=/dev/stdin iflag=nonblock bs=1 count=1 2>/dev/null | wc -c >&2; " + as_branch() +
            "echo \"$plan\" >&2; " + all_end());
  tree.until_over();
  CHECK_THAT(tree.said[1], StartsWith("0\n{\"branch\":"));
}

TEST_CASE("a plan that cannot be told is known before anything starts") {
  boost::asio::io_context io;
  const std::string long_word(kLongestAgentLine, 'x');
  const auto check = [&](const std::string& word) {
    return BranchedAgents(io, {Tree::sh("exit 99"), {{"ssh", word}, true}}, 1, kOwnVersion, own_limit()).check_plans();
  };
  CHECK(check("b").ok());
  const auto wrong = check(long_word);
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().kind == ErrorKind::usage);
}

TEST_CASE("a branch waits as long as one of its streams is paused") {
  Tree tree(as_branch() + says(branch_frames(What::out, 1, "a") + branch_frames(What::err, 1, "b")) + all_end() +
            "exec cat > /dev/null");
  tree.takes = false;
  tree.until([&] { return tree.said.contains(0); });  // the noise of its login
  tree.agents.resume(0);
  tree.until([&] { return tree.said.contains(2); });
  tree.io.poll();
  CHECK_FALSE(tree.said.contains(3));
  tree.agents.resume(2);
  tree.until([&] { return tree.said.contains(3); });
  CHECK(tree.ends.empty());
  tree.takes = true;
  tree.agents.resume(3);
  tree.until_over();
  CHECK(tree.ends.size() == 3);
}

TEST_CASE("a branch gets lines of its agents once it speaks, and each piece of a file once") {
  const ShipPiece piece{0, 65536, 5}, other{1, 0, 3};
  const std::string gets = branch_frames(What::in, 1, "task\n") +
                           branch_frames(What::piece, 1, ship_piece_line(piece) + "\nbytes") +
                           branch_frames(What::again, 2, ship_piece_line(piece)) +
                           branch_frames(What::piece, 2, ship_piece_line(other) + "\nxyz") +
                           branch_frames(What::again, 0, ship_piece_line(piece)) + branch_frames(What::drop, 1);
  Tree tree(as_branch() + tells_what_it_gets(gets) + all_end());
  tree.agents.send(1, "task");
  tree.agents.serve(1, piece, "bytes");
  tree.agents.serve(2, piece, "bytes");
  tree.agents.serve(2, other, "xyz");
  tree.agents.serve(0, piece, "bytes");
  tree.agents.drop(1);
  tree.until_over();
  CHECK(tree.said[0] == "motd\n" + gets);
}

TEST_CASE("a branch all of whose agents are dropped is killed") {
  Tree tree(as_branch() + says(branch_frames(What::ended, 0, "0")) + "trap '' TERM; exec sleep 50");
  tree.until([&] { return tree.ends.contains(0); });
  tree.agents.drop(1);
  tree.agents.drop(2);
  tree.until_over();
  CHECK(tree.ends == std::map<int, int>{{0, 0}, {1, kRelayLost}, {2, kRelayLost}});
}

TEST_CASE("a branch that cannot be started is no agent at all") {
  boost::asio::io_context io;
  BranchedAgents agents(io, {{{"/nonexistent/ssh"}, true}, {{"x"}, true}}, 1, kOwnVersion, own_limit());
  for (const int agent : {0, 1}) {
    const auto started = agents.start(agent);
    REQUIRE_FALSE(started.ok());
    CHECK_THAT(started.error().message, Contains("/nonexistent/ssh"));
  }
  CHECK_FALSE(agents.any_runs());
}
