#pragma once
// The process groups that a session makes: CPU tensors through CommGroup, CUDA tensors through NCCL.
#include <mutex>

#include "dtrain/group.h"
#include "dtrain/worker_env.h"
#include "strategies/comm/shm_backend.h"

namespace dtrain {

struct FormedGroup {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<ShmBackend> cpu;
  RankNames names{};             // of its ranks, in messages
  at::Device device = at::kCPU;  // where this rank's tensors belong

  // After a barrier.
  void shutdown();
  // Operations under way end with an error here.
  void stop();
  // No collective: the others are told that this rank is gone.
  void leave();
};

// This rank's place in a group.
struct GroupPlace {
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;  // for its device
  RankNames names{};
  std::chrono::milliseconds timeout{};
};

// Of the rank with this number on its host. Throws ConfigError where it has no GPU for itself.
at::Device device_for(int local_rank);

// Collective, of its ranks. `keys` are the group's own keys in the store, `name` is c10d's. Throws as CommGroup's
// form_group() does.
FormedGroup form_group(const c10::intrusive_ptr<c10d::Store>& keys, const GroupPlace& place, const std::string& name);

// What the groups of a session have in common. Calls that form groups come one at a time.
struct GroupsOfSession : std::enable_shared_from_this<GroupsOfSession> {
  WorkerEnv env;
  c10::intrusive_ptr<c10d::Store> store;
  std::chrono::milliseconds timeout{};
  int counted = 0;  // groups that all ranks were asked for
  // Those that this rank is in, in the order they were formed.
  std::mutex mutex;
  std::vector<Group> formed;

  // Of all ranks; the first one.
  Group form_world();
  // By all ranks of the session, in one order, of lists that are known to fit; ranks outside of it get an empty one.
  Group form(const std::vector<int>& ranks, const GroupSettings& settings);
  Group add(Group::State state, const c10::intrusive_ptr<c10d::Store>& keys, const GroupPlace& place);
  // Collective of `group`: another one of its ranks, by the same names, which is the caller's to end and no part of the
  // session. `purpose` is a part of its c10d name. Errors as in Group::again.
  static FormedGroup form_apart(const Group& group, const std::string& purpose, std::chrono::milliseconds timeout);
  // After a barrier of all ranks: the last one that was formed first.
  void shutdown();
  void leave() noexcept;
};

struct Group::State {
  std::string name;
  std::vector<int> ranks;
  int rank = -1;
  std::string c10d_name{};
  std::chrono::milliseconds timeout{};
  c10::intrusive_ptr<c10d::Store> keys{};  // its own
  FormedGroup formed{};                    // none outside of it, and after its end
  int copies = 0;                          // made by again()
  int apart = 0;                           // made by form_apart()
  std::weak_ptr<GroupsOfSession> session{};
};

}  // namespace dtrain
