// See survivors.h.
#include "strategies/comm/bootstrap/survivors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "strategies/comm/base/interrupt.h"

namespace dtrain {
namespace {

constexpr const char* kJoinersKey = "reform/joiners";
constexpr const char* kLastWorld = "reform/latest";

std::string key_of_gone(const std::string& member) { return "gone/" + member; }
std::string key_of_here(std::int64_t generation, const std::string& member) {
  return fmt::format("reform/{}/here/{}", generation, member);
}
std::string key_of_world(std::int64_t generation) { return fmt::format("reform/{}/world", generation); }
std::string admitted_key(const std::string& member) { return "reform/admitted/" + member; }

nlohmann::json member_json(const Member& member) {
  return {{"name", member.name}, {"node", member.node}, {"local_rank", member.local_rank}};
}

Member member_of(const nlohmann::json& json) {
  return {json.at("name").get<std::string>(), json.at("node").get<int>(), json.at("local_rank").get<int>()};
}

std::string world_text(const SurvivorWorld& world) {
  nlohmann::json members = nlohmann::json::array();
  for (const Member& member : world.members) members.push_back(member_json(member));
  return nlohmann::json{{"generation", world.generation}, {"members", members}, {"joiners", world.joiners}}.dump();
}

SurvivorWorld world_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  SurvivorWorld world{json.at("generation").get<std::int64_t>(), {}, json.at("joiners").get<std::size_t>()};
  for (const auto& member : json.at("members")) world.members.push_back(member_of(member));
  return world;
}

// What the key holds, if it is there.
std::optional<std::string> value_of(MemberStore& store, const std::string& key) {
  if (!store.has(key)) return std::nullopt;
  return store.take(key, std::chrono::steady_clock::now() + std::chrono::seconds(30));
}

std::vector<std::string> lines_at(MemberStore& store, const std::string& key) {
  std::vector<std::string> lines;
  const std::string text = value_of(store, key).value_or("");
  for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != text.npos; at = end + 1)
    lines.push_back(text.substr(at, end - at));
  return lines;
}

}  // namespace

bool LookAgain::pause(GroupStore::Deadline deadline) {
  using std::chrono::microseconds;
  if (void (*check)() = interrupt_check()) check();
  const auto now = std::chrono::steady_clock::now();
  if (now >= deadline) return false;
  const auto tenth = std::chrono::duration_cast<microseconds>(now - since_) / 10;
  // tidy: allow sleep, because the store cannot wait for one of two keys; the deadline is above
  std::this_thread::sleep_for(std::clamp(tenth, microseconds(200), microseconds(100'000)));
  return true;
}

bool takes_a_place(const std::string& member) { return !member.ends_with(".0"); }

int SurvivorWorld::rank_of(const std::string& member) const {
  const auto at = std::find_if(members.begin(), members.end(), [&](const Member& m) { return m.name == member; });
  return at == members.end() ? -1 : static_cast<int>(at - members.begin());
}

std::vector<int> SurvivorWorld::local_ranks(int node) const {
  std::vector<int> found;
  for (const Member& member : members)
    if (member.node == node) found.push_back(member.local_rank);
  return found;
}

std::string SurvivorWorld::keys() const { return fmt::format("reform/{}/group", generation); }

Survivors::Survivors(MemberStore& store, Member own, int ranks) : store_(store), own_(std::move(own)) {
  for (int rank = 0; rank < ranks; ++rank) world_.members.push_back({fmt::format("{}.0", rank)});
}

bool Survivors::ended(const std::string& member) { return store_.has(key_of_gone(member)); }

const SurvivorWorld& Survivors::meet(Deadline deadline) {
  if (world_.generation < 0 && takes_a_place(own_.name)) return join(deadline);
  store_.put(key_of_here(world_.generation + 1, own_.name), member_json(own_).dump());
  return enter(world_after(world_, await_others(deadline)));
}

// The world that stands in the store; if there is none, that of those that came and of those that wait to join.
SurvivorWorld Survivors::world_after(const SurvivorWorld& last, std::vector<Member> came) {
  SurvivorWorld next{last.generation + 1, std::move(came), last.joiners};
  const std::string key = key_of_world(next.generation);
  if (!store_.has(key)) take_joiners(next);
  return world_of(store_.first(key, world_text(next)));
}

// Those of the last world that have come. The rest has ended, or somebody else knows already.
std::vector<Member> Survivors::await_others(Deadline deadline) {
  const std::int64_t next = world_.generation + 1;
  std::vector<Member> members;
  LookAgain look;
  for (const Member& member : world_.members) {
    while (!ended(member.name)) {
      if (const auto here = value_of(store_, key_of_here(next, member.name))) {
        members.push_back(member_of(nlohmann::json::parse(*here)));
        break;
      }
      if (store_.has(key_of_world(next))) return members;
      if (!look.pause(deadline))
        throw std::runtime_error(
            fmt::format("rank {} did not come to form the group anew, and the launcher does not say that it has ended",
                        world_.rank_of(member.name)));
    }
  }
  return members;
}

void Survivors::take_joiners(SurvivorWorld& world) {
  const std::vector<std::string> lines = lines_at(store_, kJoinersKey);
  for (std::size_t i = world.joiners; i < lines.size(); ++i) {
    const Member joiner = member_of(nlohmann::json::parse(lines[i]));
    if (!ended(joiner.name) && world.rank_of(joiner.name) < 0) world.members.push_back(joiner);
  }
  world.joiners = std::max(world.joiners, lines.size());
}

// Whoever knows the world tells those that wait for it: the one that decided may be dead.
const SurvivorWorld& Survivors::enter(SurvivorWorld world) {
  if (world.rank_of(own_.name) < 0) throw std::runtime_error("the others have gone on without this process");
  for (const Member& member : world.members)
    if (world_.rank_of(member.name) < 0) store_.put(admitted_key(member.name), std::to_string(world.generation));
  store_.put(kLastWorld, world_text(world));
  world_ = std::move(world);
  return world_;
}

const SurvivorWorld& Survivors::join(Deadline deadline) {
  if (!std::exchange(asked_, true)) store_.append(kJoinersKey, member_json(own_).dump() + "\n");
  LookAgain look;
  SurvivorWorld last = world_;
  while (true) {
    if (const auto admitted = value_of(store_, admitted_key(own_.name))) {
      world_ = world_of(value_of(store_, key_of_world(std::stoll(*admitted))).value());
      return world_;
    }
    if (const auto latest = value_of(store_, kLastWorld); latest && world_of(*latest).generation > last.generation)
      last = world_of(*latest);
    if (all_ended(last)) {
      SurvivorWorld next = world_after(last, {});
      if (next.rank_of(own_.name) >= 0) return enter(std::move(next));
      last = std::move(next);  // of others that took places, who had not seen this one
    }
    if (!look.pause(deadline)) throw std::runtime_error("the other ranks did not form the group anew (reform())");
  }
}

bool Survivors::all_ended(const SurvivorWorld& world) {
  bool well = false;
  for (const Member& member : world.members) {
    const auto end = value_of(store_, key_of_gone(member.name));
    if (!end) return false;
    well = well || *end == "well";
  }
  if (well) throw std::runtime_error("the other ranks have come to their end");
  return true;
}

bool Survivors::joiners_wait() { return lines_at(store_, kJoinersKey).size() > world_.joiners; }

bool Survivors::somebody_ends_by(Deadline deadline) {
  LookAgain look;
  while (!somebody_ended())
    if (!look.pause(deadline)) return false;
  return true;
}

bool Survivors::somebody_ended() {
  return std::any_of(world_.members.begin(), world_.members.end(),
                     [this](const Member& member) { return ended(member.name); });
}

}  // namespace dtrain
