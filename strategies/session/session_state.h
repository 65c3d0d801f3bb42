#pragma once
// What is in a Session, for those that form groups of it.
#include "dtrain/session.h"
#include "strategies/comm/backend/store_meeting.h"
#include "strategies/session/process_groups.h"

namespace dtrain {

struct Session::State {
  State(std::shared_ptr<GroupsOfSession> all, Group of_all, torch::Device own)
      : groups(std::move(all)), world(std::move(of_all)), device(own) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // A session that was not shut down.
  ~State() { groups->leave(); }

  std::shared_ptr<GroupsOfSession> groups;
  Group world;
  torch::Device device;
  std::unique_ptr<SurvivorsInStore> survivors;  // under `dtrain run --survivors`; else null
  bool config_known = false;                    // the program has asked for the training config
};

// Collective of the ranks that are left: forms the group of their world in place of what the session has.
void form_survivors(Session::State& session, std::chrono::milliseconds timeout);

// Collective of the session: all ranks must have called the same. Returns what each brings with it, by rank. Throws
// ConfigError on every rank where one called something else.
std::vector<std::string> agree(const Session::State& session, const std::string& call, const std::string& own = {});

}  // namespace dtrain
