#include <cerrno>

#include "cli/doctor/doctor.h"
#include "test/support/catch.h"
#include "test/unit/cli/test_host.h"

namespace dtrain::cli {
namespace {

using Level = Finding::Level;

constexpr const char* kMaster = "job-node-0-0.job";

// A pod whose controller has set PET_*, on which the name service says this.
Host pod(const Result<MeetingAddress>& answer) {
  Host host = test_host();
  host.env["PET_NNODES"] = "2";
  host.env["PET_NODE_RANK"] = "0";
  host.env["PET_MASTER_ADDR"] = kMaster;
  host.env["PET_MASTER_PORT"] = "29500";
  host.meeting_address = [answer](const std::string& name) {
    CHECK(name == kMaster);
    return answer;
  };
  return host;
}

MeetingAddress own() { return {{"10.0.0.5"}, "10.0.0.5", "eth0", {{"eth0", "10.0.0.5"}}}; }

Finding only_finding(const Host& host, const PortUse& use = {}) {
  const Findings findings = judge_meeting(host, [&](int port) {
    CHECK(port == 29500);
    return use;
  });
  REQUIRE(findings.size() == 1);
  return findings[0];
}

}  // namespace

TEST_CASE("preflight: the meeting place that variables name") {
  CHECK(only_finding(pod(own())).detail == "job-node-0-0.job:29500, on this host");
  const Finding taken = only_finding(pod(own()), {false, "python3 (17)"});
  CHECK(taken.level == Level::retry);
  CHECK(taken.detail == "job-node-0-0.job:29500, on this host: the port is taken by python3 (17)");
  Host joins = pod(own());
  joins.env["PET_NODE_RANK"] = "1";  // on node 0's host
  CHECK(only_finding(joins, {false, "dtrain (17)"}).level == Level::ok);
  const Finding other = only_finding(pod(MeetingAddress{{"10.0.0.9"}, "", "", {}}), {false, "python3 (17)"});
  CHECK(other.level == Level::ok);
  CHECK(other.detail == "job-node-0-0.job:29500, another host's: 10.0.0.9");
}

TEST_CASE("preflight: a name that is not known yet is worth another try, others are not") {
  const Finding late = only_finding(pod(Error{ErrorKind::system, "job-node-0-0.job: no such name", EAGAIN}));
  CHECK(late.level == Level::retry);
  CHECK(late.cure.find("publishNotReadyAddresses") != std::string::npos);
  const Finding never = only_finding(pod(Error{ErrorKind::usage, "job-node-0-0.job: no address", 0}));
  CHECK(never.level == Level::fail);
}

TEST_CASE("preflight: nothing to say of a job of one node, of no place, and of several members of etcd") {
  Host host = pod(own());
  host.meeting_address = [](const std::string&) -> Result<MeetingAddress> {
    FAIL_CHECK("asked");
    return own();
  };
  const auto none = [](int) {
    FAIL_CHECK("asked");
    return PortUse{};
  };
  SECTION("one node") { host.env["PET_NNODES"] = "1"; }
  SECTION("no place") { host.env.erase("PET_MASTER_ADDR"); }
  SECTION("etcd") { host.env["PET_RDZV_ENDPOINT"] = "a:2379,b:2379"; }
  CHECK(judge_meeting(host, none).empty());
}

TEST_CASE("preflight: the exit code is that of the worst finding") {
  const Finding ok{Level::ok, "cores", "8", ""}, warn{Level::warn, "clock", "wrong", "set it"};
  const Finding retry{Level::retry, "meeting place", "unknown", "wait"}, fail{Level::fail, "loopback", "no", "up"};
  CHECK(preflight_verdict({}) == 0);
  CHECK(preflight_verdict({ok}) == 0);
  CHECK(preflight_verdict({warn, ok}) == 10);
  CHECK(preflight_verdict({warn, retry, ok}) == 20);
  CHECK(preflight_verdict({fail, retry, warn}) == 30);
  CHECK(verdict({warn}) == 0);
  CHECK(verdict({warn, retry}) == 1);
  CHECK(verdict({fail}) == 1);
  CHECK(report({ok, retry}).ends_with("\nnot ready to run jobs yet\n"));
}

}  // namespace dtrain::cli
