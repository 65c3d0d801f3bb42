#pragma once
// Agents that a tree of commands starts. Some of the commands start a branch (branch.h): an agent, and others which it
// starts and whose input and output it carries, by frames (launcher/engine_wire/branch_wire.h).
#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/engine_wire/branch_wire.h"
#include "launcher/hosts/agent_ends.h"
#include "launcher/hosts/command_agents.h"
#include "launcher/hosts/host_tree.h"
#include "launcher/ship/last_pieces.h"

namespace dtrain::launcher {

class BranchedAgents final : public AgentEnds {
 public:
  // `commands`: by agent; one that does not die with us is here. `version`: of this dtrain, and so of each branch.
  BranchedAgents(boost::asio::io_context& io, const std::vector<AgentCommand>& commands, int fanout,
                 std::string version, rlimit descriptors);

  // What each branch is to do. Error: it cannot be told, and nothing has been started.
  Result<void> check_plans() const;
  void attach(Callbacks callbacks) override { callbacks_ = std::move(callbacks); }
  // With it all agents of its branch.
  Result<void> start(int agent) override;
  void send(int agent, const std::string& line) override { send_bytes(agent, line + "\n"); }
  void send_bytes(int agent, std::string_view bytes);
  // A branch gets each piece once, as long as its agents ask for it at about the same time.
  void serve(int agent, const ShipPiece& piece, const std::string& bytes) override;
  void drop(int agent) override;
  void resume(int stream) override;
  bool any_runs() const override { return commands_.any_runs(); }
  // Of an agent that is no branch.
  void close_input(int agent) { commands_.close_input(place(agent).child); }
  // What an agent that is no branch has said and not been read yet.
  void drain(int agent);
  void drain_all() override;
  void close_all() override { commands_.close_all(); }
  bool all_closed() const override { return commands_.all_closed(); }

 private:
  // What one command starts.
  struct Child {
    AgentList agents{};
    Result<std::string> plan{std::string()};  // of a branch: its line
    std::optional<BranchDecoder> frames{};    // of a branch
    Result<void> started{};
    bool has_started = false, speaks = false, decodes = false, is_awaited = false;
    std::string wrong{};                  // why it has been given up
    std::string first{};                  // what it says before its frames
    std::string early{};                  // frames for it, until it speaks
    std::set<int> paused{};               // streams of its agents
    std::vector<char> over{}, dropped{};  // by its agents
    LastPieces sent{};
    bool is_branch() const { return frames.has_value(); }
  };
  struct Place {
    int child = 0, number = 0;  // in the child
  };

  static std::vector<Child> divided(const std::vector<AgentCommand>& commands, int fanout);
  std::vector<AgentCommand> first_of_each(const std::vector<AgentCommand>& commands) const;
  Place place(int agent) const { return places_[static_cast<std::size_t>(agent)]; }
  Child& child(int number) { return children_[static_cast<std::size_t>(number)]; }
  Result<void> start_child(int number);
  bool heard(int stream, std::string_view bytes);
  void decode_soon(int number);
  void decode(int number, bool all);
  bool hear_first(int number, bool all);
  bool hear_next(int number, bool all);
  void pass(Child& from, int stream, std::string_view bytes, bool all);
  void give_up(int number, const std::string& why);
  void end(int number, std::size_t at, int status);
  void ended(int number, int status);
  void tell(int number, std::string_view frames);
  void push(int number, std::string_view bytes);

  boost::asio::io_context& io_;
  std::string version_;
  Callbacks callbacks_{};
  std::vector<Child> children_;
  std::vector<Place> places_;  // by agent
  CommandAgents commands_;     // by child
  const std::shared_ptr<bool> lives_ = std::make_shared<bool>(true);
};

}  // namespace dtrain::launcher
