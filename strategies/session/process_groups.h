#pragma once
// The process groups that a session makes: CPU tensors through CommGroup, CUDA tensors through NCCL.
#include <fmt/format.h>

#include <mutex>

#include "dtrain/group.h"
#include "dtrain/worker_env.h"
#include "strategies/comm/backend/cpu_backend.h"
#include "strategies/torch/compat.h"

namespace dtrain {

struct FormedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<CpuBackend> cpu;
  c10::intrusive_ptr<c10d::Backend> nccl{};  // null without a GPU
  int process = 0;                           // that formed it
  RankNames names{};                         // how messages to the user name its ranks
  at::Device device = at::kCPU;              // where this rank's tensors belong

  // End the group, after a barrier.
  void shutdown();
  // Make operations under way end with an error on this rank.
  void stop();
  // Tell the others that this rank is gone. Not a collective.
  void leave();
};

// This rank's place in a group.
struct GroupPlace {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // chooses its device
  RankNames names{};
  std::chrono::milliseconds timeout{};
};

// The device of the rank with this number on its host. Throws ConfigError if that rank has no GPU for itself.
at::Device device_for(int local_rank);

// Errors of joining that are not the user's name this rank.
template <class Join>
auto joining(const WorkerEnv& env, const Join& join) {
  try {
    return join();
  } catch (const CollectiveError&) {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("dtrain: rank {} of {} could not join the group: {}", env.rank, env.world_size,
                                         short_reason(error)));
  }
}

// Collective of the group's ranks. `keys` are the group's own keys in the store; `name` is its name in c10d. Throws as
// form_group() does (comm/groups).
FormedGroup form_process_group(const c10::intrusive_ptr<c10d::Store>& keys, const GroupPlace& place,
                               const std::string& name);

// What the groups of a session have in common. The caller forms one group at a time.
struct GroupsOfSession : std::enable_shared_from_this<GroupsOfSession> {
  WorkerEnv env;
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds timeout{};
  int counted = 0;  // groups that the program has asked for, on every rank the same number
  // The groups that this rank is in, in the order in which they were formed.
  std::mutex mutex;
  std::vector<Group> formed;

  // Form the group of all ranks; it is the first one.
  Group form_world();
  // Collective: every rank calls it, in the same order, with the same list, which all have agreed on. A rank that is
  // not in `ranks` gets an empty group.
  Group form(const std::vector<int>& ranks, const GroupSettings& settings);
  Group add(Group::State state, const c10::intrusive_ptr<c10d::Store>& keys, const GroupPlace& place);
  // Collective of `group`: form another group of the same ranks, with the same names. The caller ends it; it is no part
  // of the session. `purpose` is a part of its c10d name. Throws as Group::again() does.
  static FormedGroup form_apart(const Group& group, const std::string& purpose, std::chrono::milliseconds timeout);
  // End all groups, after a barrier of all ranks: first the group that was formed last.
  void shutdown();
  void leave() noexcept;
};

struct Group::State {
  std::string name;
  std::vector<int> ranks;
  int rank = -1;
  std::string c10d_name{};
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> keys{};  // the group's own keys
  FormedGroup formed{};                    // empty on a rank outside of the group, and after the group's end
  int copies = 0;                          // groups that again() has made of it
  int apart = 0;                           // groups that form_apart() has made of it
  std::weak_ptr<GroupsOfSession> session{};
};

}  // namespace dtrain
