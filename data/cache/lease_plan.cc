// Tested by test/unit/data/cache/lease_plan_test.cc.
#include "data/cache/lease_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

namespace dtrain::data {
namespace {

using LeaseJson = nlohmann::ordered_json;
constexpr int kLeaseFormat = 1;

}  // namespace

std::string lease_text(const Lease& lease) {
  const LeaseJson json = {
      {"format", kLeaseFormat}, {"owner", lease.owner},         {"user", lease.user},
      {"host", lease.host},     {"boot", lease.boot},           {"pid_space", lease.pid_space},
      {"pid", lease.pid},       {"pid_began", lease.pid_began}, {"beat", fmt::format("{:010}", lease.beat)}};
  return json.dump(-1, ' ', false, LeaseJson::error_handler_t::replace) + "\n";
}

std::optional<Lease> parse_lease(const std::string& text) {
  try {
    const LeaseJson json = LeaseJson::parse(text);
    if (json.at("format") != kLeaseFormat) return std::nullopt;
    Lease lease;
    lease.owner = json.at("owner").get<std::string>();
    lease.user = json.at("user").get<std::string>();
    lease.host = json.at("host").get<std::string>();
    lease.boot = json.at("boot").get<std::string>();
    lease.pid_space = json.at("pid_space").get<std::string>();
    lease.pid = json.at("pid").get<int>();
    lease.pid_began = json.at("pid_began").get<std::string>();
    lease.beat = static_cast<unsigned>(std::stoul(json.at("beat").get<std::string>()));
    return lease;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string builder_name(const Lease& lease) {
  return fmt::format("{} on {}, pid {}", lease.user, lease.host, lease.pid);
}

std::string waits_for(const Lease& builder) {
  return fmt::format("waiting for {}, which builds the data set", builder_name(builder));
}

std::string has_waited(const std::optional<Lease>& builder, std::chrono::milliseconds most) {
  return fmt::format("{} still builds the data set after {} s; wait longer with --wait",
                     builder ? builder_name(*builder) : "nobody",
                     std::chrono::duration_cast<std::chrono::seconds>(most).count());
}

LeaseStep LeaseWait::next(const LeaseSight& sight, LeaseTime now) {
  if (sight.whole) return LeaseStep::use;
  // Also before a lease is taken: another process may hold the lock without which it cannot be. But who may not wait at
  // all may still build.
  if (std::exchange(has_looked_, true) && now - began_ >= patience_.most) return LeaseStep::give_up;
  if (!sight.lease) {
    seen_.reset();
    return LeaseStep::take;
  }
  if (sight.builder_is_dead) return LeaseStep::replace;
  if (!seen_ || seen_->owner != sight.lease->owner || seen_->beat != sight.lease->beat)
    seen_ = Seen{sight.lease->owner, sight.lease->beat, now};
  if (now - seen_->since >= patience_.stale) return LeaseStep::replace;
  if (now - told_ < patience_.tell) return LeaseStep::wait;
  told_ = now;
  return LeaseStep::tell;
}

}  // namespace dtrain::data
