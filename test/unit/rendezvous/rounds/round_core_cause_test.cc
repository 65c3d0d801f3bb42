// Which failure is the cause of a round's end, where a worker blames a rank of another node. Two workers on each node.
#include "rendezvous/rounds/round_core.h"
#include "test/support/catch.h"
#include "test/unit/rendezvous/round_job.h"

using namespace dtrain;
using test::Job, test::settings, test::Words;

namespace {

// Three nodes with two workers each; their first round is open.
struct Three : Job {
  Three() : Job(settings(3, 3)) {
    for (MemberId id = 1; id <= 3; ++id) join(id);
  }
  void failed(MemberId id, const std::string& what, int code, int because_of = msg::kNobody) {
    hear(id, msg::Failed{0, 0, what, code, false, because_of, "left the job"});
  }
  void all_over() {
    for (MemberId id = 1; id <= 3; ++id) hear(id, msg::Over{0, false});
  }
  const std::string& reason() const { return core.ended_because(); }
};

// What is sent with Stop to this member.
int blamed_in_stop(Job& job, MemberId to, const msg::Failed& failed, MemberId from) {
  for (const auto& action : job.core.step(round_event::Said{from, failed}, job.now)) {
    const auto* send = std::get_if<round_action::Send>(&action);
    const auto* stop = send != nullptr ? std::get_if<msg::Stop>(&send->message) : nullptr;
    if (stop != nullptr && send->member == to) return stop->because_of;
  }
  return -100;
}

}  // namespace

TEST_CASE("the node of the rank that is blamed tells the cause") {
  Three job;
  CHECK(blamed_in_stop(job, 2, {0, 0, "rank 0: exit code 1", 1, false, 2, "left the job"}, 1) == 2);
  job.failed(3, "rank 4: exit code 1", 1, 2);
  job.failed(2, "rank 2: exit code 3", 3);
  job.all_over();
  CHECK(job.said == Words{"1: end 3", "2: end 3", "3: end 3"});
  CHECK(job.reason().find("node 1 ") == 0);
  CHECK(job.reason().find("rank 2: exit code 3") != std::string::npos);
}

TEST_CASE("a rank that is blamed and has ended with 0 is the cause, with the exit code of who failed") {
  Three job;
  job.failed(1, "rank 0: exit code 7", 7, 2);
  job.failed(2, "rank 2: ended with code 0 while others were in a collective", 0);
  job.all_over();
  CHECK(job.said == Words{"1: end 7", "2: end 7", "3: end 7"});
  CHECK(job.reason().find("node 1 ") == 0);
}

TEST_CASE("so is one whose whole node has ended well before, and that node is told") {
  Three job;
  job.hear(2, msg::Over{0, true});
  CHECK(blamed_in_stop(job, 2, {0, 0, "rank 0: exit code 7", 7, false, 3, "left the job"}, 1) == 3);
  job.hear(1, msg::Over{0, false});
  job.hear(3, msg::Over{0, false});
  CHECK(job.said == Words{"1: end 7", "2: end 7", "3: end 7"});
  CHECK(job.reason().find("node 1 ") == 0);
  CHECK(job.reason().find("rank 3 ended with code 0 while others were in a collective") != std::string::npos);
}

TEST_CASE("where a peer has gone and nobody knows which, it is the last rank that ended with 0 before") {
  Job job(settings(4, 4));
  for (MemberId id = 1; id <= 4; ++id) job.join(id);
  job.hear(3, msg::Over{0, true, 4});
  job.hear(2, msg::Over{0, true, 3});
  job.hear(1, msg::Failed{0, 0, "rank 0: exit code 7", 7, false, msg::kSomebody});
  job.hear(1, msg::Over{0, false, 1});  // it has left too, after the other node's rank
  job.said.clear();
  job.hear(4, msg::Over{0, false});
  CHECK(job.said == Words{"2: stop", "1: end 7", "2: end 7", "3: end 7", "4: end 7"});
  CHECK(job.core.ended_because().find("node 1 ") == 0);
  CHECK(job.core.ended_because().find("rank 3 ended with code 0 while others") != std::string::npos);
}

TEST_CASE("the news that a rank has ended with 0 may come after the failure that this has caused") {
  Three job;
  job.failed(1, "rank 0: exit code 7", 7, msg::kSomebody);
  job.hear(1, msg::Over{0, false});
  job.hear(2, msg::Over{0, false, 5});  // not a rank of this node
  job.hear(3, msg::Over{0, false, 4});
  CHECK(job.reason().find("node 2 ") == 0);
  CHECK(job.reason().find("rank 4 ended with code 0 while others") != std::string::npos);

  Three failed;
  failed.failed(1, "rank 0: exit code 7", 7, msg::kSomebody);
  failed.failed(2, "rank 2: exit code 3", 3);
  failed.hear(1, msg::Over{0, false});
  failed.hear(2, msg::Over{0, false});
  failed.hear(3, msg::Over{0, false, 4});
  CHECK(failed.reason().find("rank 2: exit code 3") != std::string::npos);
}

TEST_CASE("a failure that blames nobody takes the place of one that does, and the blamed one's that of all") {
  Three job;
  job.failed(1, "rank 0: exit code 1", 1, msg::kSomebody);
  job.failed(3, "rank 4: exit code 5", 5);
  job.all_over();
  CHECK(job.reason().find("rank 4: exit code 5") != std::string::npos);

  Three other;
  other.failed(1, "rank 0: exit code 1", 1, 2);
  other.failed(3, "rank 4: exit code 5", 5);
  other.failed(2, "rank 2: exit code 3", 3);
  other.all_over();
  CHECK(other.reason().find("rank 2: exit code 3") != std::string::npos);
}

TEST_CASE("what comes after a failure that blames nobody is a consequence, whomever it blames") {
  Three job;
  job.failed(2, "rank 2: exit code 3", 3);
  job.failed(1, "rank 0: exit code 1", 1, 2);
  job.failed(3, "rank 4: exit code 5", 5);
  job.all_over();
  CHECK(job.reason().find("rank 2: exit code 3") != std::string::npos);
}

TEST_CASE("where nothing is heard of the rank that is blamed, the failure stands") {
  Three job;
  job.failed(1, "rank 0: exit code 1, because of rank 2", 1, 2);
  job.failed(3, "rank 4: exit code 1", 1, 2);
  job.all_over();
  CHECK(job.reason().find("rank 0: exit code 1, because of rank 2") != std::string::npos);
}

TEST_CASE("blame of one round is forgotten in the next") {
  Job job(settings(2, 2, 1));
  job.join(1);
  job.join(2);
  job.hear(1, msg::Failed{0, 0, "rank 0: exit code 1", 1, false, 2, "left the job"});
  job.over(1, false);
  job.over(2, false);
  CHECK(blamed_in_stop(job, 2, {1, 0, "rank 0: exit code 1", 1, false}, 1) == msg::kNobody);
  job.hear(2, msg::Failed{1, 0, "rank 2: exit code 4", 4, false});
  job.over(1, false);
  job.over(2, false);
  CHECK(job.core.ended_because().find("rank 0: exit code 1") != std::string::npos);
}
