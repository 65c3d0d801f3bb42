// How the members of a job's own etcd are started, and when one may be.
#include "launcher/etcd/etcd_member.h"

#include <algorithm>

#include "test/support/catch.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

EtcdPlace place(std::size_t members = 3) {
  EtcdPlace place;
  for (std::size_t i = 0; i < members; ++i) place.members.push_back({"n" + std::to_string(i), {}, 29400});
  place.https = true;
  place.own = EtcdPlace::Own{};
  place.own->self = 1;
  place.own->program = "/usr/bin/etcd";
  place.own->address = "::";
  place.own->folder = "/tmp/f";
  return place;
}

bool has(const std::vector<std::string>& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("etcd member: the same cluster on all nodes, its own addresses on each") {
  const auto three = place();
  CHECK(etcd_cluster(three) == "m0=https://n0:29401,m1=https://n1:29401,m2=https://n2:29401");
  const auto words = etcd_member_command(three, "job 1", etcd_cluster(three), false);
  for (const char* word :
       {"--name=m1", "--data-dir=/tmp/f/data", "--listen-client-urls=https://[::]:29400",
        "--listen-peer-urls=https://[::]:29401", "--advertise-client-urls=https://n1:29400",
        "--initial-advertise-peer-urls=https://n1:29401", "--initial-cluster-token=dtrain-job 1",
        "--initial-cluster-state=new", "--client-cert-auth=true", "--peer-client-cert-auth=true",
        "--trusted-ca-file=/tmp/f/ca.pem", "--peer-trusted-ca-file=/tmp/f/ca.pem", "--key-file=/tmp/f/member.key"})
    CHECK(has(words, word));
  CHECK(has(etcd_member_command(three, "j", etcd_cluster(three), true), "--initial-cluster-state=existing"));

  auto plain = place();
  plain.https = false;
  plain.own->peer_port = 7;
  CHECK(etcd_cluster(plain).starts_with("m0=http://n0:7,"));
  for (const auto& word : etcd_member_command(plain, "j", "", false)) CHECK(word.find("cert") == std::string::npos);
}

TEST_CASE("etcd member: one without data comes back as another one, and never where others may go on without it") {
  const auto three = place();
  const std::string urls[] = {"https://n0:29401", "https://n1:29401", "https://n2:29401"};
  const auto start = [&](std::optional<std::vector<EtcdMemberFacts>> members, std::size_t reached,
                         EtcdBefore before = EtcdBefore::none) {
    return judge_etcd_start(three, {std::move(members), reached}, before);
  };
  // Nobody has begun: as long as one of the others can be seen, it would know.
  CHECK(start(std::nullopt, 2) == EtcdStart::as_typed);
  CHECK(start(std::nullopt, 1) == EtcdStart::as_typed);
  CHECK(start(std::nullopt, 0) == EtcdStart::wait);
  CHECK(judge_etcd_start(place(5), {std::nullopt, 1}, EtcdBefore::none) == EtcdStart::wait);
  CHECK(judge_etcd_start(place(5), {std::nullopt, 2}, EtcdBefore::none) == EtcdStart::as_typed);
  // The others have begun, this one has not.
  CHECK(start({{{1, "m0", urls[0]}, {2, "", urls[1]}}}, 1) == EtcdStart::as_typed);
  // It was there before, and has lost its data.
  CHECK(start({{{1, "m0", urls[0]}, {2, "m1", urls[1]}}}, 1) == EtcdStart::replace);
  CHECK(start({{{1, "m0", urls[0]}, {2, "", urls[1]}}}, 1, EtcdBefore::own) == EtcdStart::replace);
  CHECK(start({{{1, "m0", urls[0]}, {3, "m2", urls[2]}}}, 1, EtcdBefore::own) == EtcdStart::add);
  CHECK(start(std::nullopt, 2, EtcdBefore::own) == EtcdStart::wait);

  const std::vector<EtcdMemberFacts> added = {{1, "m0", urls[0]}, {9, "", urls[1]}};
  CHECK(own_etcd_member(three, added)->id == 9);
  CHECK(etcd_cluster(three, added) == "m0=https://n0:29401,m1=https://n1:29401");
}

TEST_CASE("etcd member: as long as another agent on this host runs it, nobody takes its place") {
  const auto three = place();
  CHECK(own_etcd_ports(three) == std::array<std::uint16_t, 2>{29400, 29401});
  const std::vector<EtcdMemberFacts> running = {{1, "m0", "https://n0:29401"}, {2, "m1", "https://n1:29401"}};
  const std::vector<EtcdMemberFacts> added = {{1, "m0", "https://n0:29401"}, {9, "", "https://n1:29401"}};
  EtcdSurroundings around{running, 2, 2, 29401};
  for (const auto before : {EtcdBefore::none, EtcdBefore::anothers, EtcdBefore::own}) {
    CHECK(judge_etcd_start(three, around, before) == EtcdStart::stay_out);
    CHECK(judge_etcd_start(three, {std::nullopt, 0, 0, 29400}, before) == EtcdStart::stay_out);
  }
  // It is gone: its place is taken, also where it was only added.
  CHECK(judge_etcd_start(three, {running, 2, 2, 0}, EtcdBefore::anothers) == EtcdStart::replace);
  CHECK(judge_etcd_start(three, {added, 2, 2, 0}, EtcdBefore::anothers) == EtcdStart::replace);
  // So is its cluster.
  CHECK(judge_etcd_start(three, {std::nullopt, 2, 0, 0}, EtcdBefore::anothers) == EtcdStart::as_typed);
}

TEST_CASE("etcd member: where too few of the others are left it is said") {
  const std::vector<EtcdMemberFacts> three = {{1, "m0", ""}, {2, "m1", ""}, {3, "m2", ""}};
  CHECK(why_not_taken_in({three, 2, 1, 0}, "x") ==
        "too few of the other members are left to admit it: 1 of 3 answer, and 2 are needed");
  CHECK(why_not_taken_in({three, 2, 2, 0}, "x") == "x");
}

TEST_CASE("etcd member: why it has ended is the last thing that its log says") {
  CHECK(why_etcd_ended({R"({"level":"warn","msg":"a"})", R"({"level":"fatal","msg":"b","error":"c"})", "exit"}) ==
        "b: c");
  CHECK(why_etcd_ended({"a", "flag provided but not defined"}) == "flag provided but not defined");
  CHECK(why_etcd_ended({}) == "it says nothing");
}
