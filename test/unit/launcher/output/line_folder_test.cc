#include "launcher/output/line_folder.h"

#include <random>

#include "test/support/catch.h"

namespace dtrain::launcher {
namespace {

using std::chrono::milliseconds;
using Texts = std::vector<std::string>;

MonoTime at(int ms) { return MonoTime(milliseconds(1000 + ms)); }

// Writes down what is shown as "0,1:text".
struct Shown {
  Texts lines;
  LineFolder::Show show() {
    return [this](const std::vector<int>& members, std::string_view line) {
      std::string who;
      for (int member : members) who += (who.empty() ? "" : ",") + std::to_string(member);
      lines.push_back(who + ":" + std::string(line));
    };
  }
};

void open(LineFolder& folder, int members) {
  for (int i = 0; i < members; ++i) folder.open(i, 1);
}

}  // namespace

TEST_CASE("what every member has written is shown at once") {
  LineFolder folder;
  Shown shown;
  open(folder, 3);
  for (int i = 0; i < 3; ++i) folder.line(i, "a\n", at(i), shown.show());
  CHECK(shown.lines == Texts{"0,1,2:a\n"});
  CHECK_FALSE(folder.deadline());
  CHECK(folder.waiting_bytes() == 0);
}

TEST_CASE("a line waits for its like, but no longer than the window") {
  LineFolder folder;
  Shown shown;
  open(folder, 3);
  folder.line(1, "a\n", at(0), shown.show());
  folder.line(2, "a\n", at(150), shown.show());
  REQUIRE(folder.deadline());
  CHECK(*folder.deadline() == at(200));
  folder.on_time(at(199), shown.show());
  CHECK(shown.lines.empty());
  folder.on_time(at(200), shown.show());
  CHECK(shown.lines == Texts{"1,2:a\n"});
  CHECK_FALSE(folder.deadline());
  folder.line(0, "a\n", at(201), shown.show());
  folder.on_time(at(401), shown.show());
  CHECK(shown.lines == Texts{"1,2:a\n", "0:a\n"});
}

TEST_CASE("lines of one member keep their order, also when it repeats itself") {
  LineFolder folder;
  Shown shown;
  open(folder, 2);
  for (const char* text : {"a\n", "b\n", "a\n"}) folder.line(0, text, at(0), shown.show());
  for (const char* text : {"b\n", "a\n", "a\n"}) folder.line(1, text, at(1), shown.show());
  folder.show_all(shown.show());
  CHECK(shown.lines == Texts{"0:a\n", "0,1:b\n", "0,1:a\n", "1:a\n"});
}

TEST_CASE("stdout and stderr are different lines, and wait for their own kind only") {
  LineFolder folder;
  Shown shown;
  folder.open(0, 1);
  folder.open(1, 2);
  folder.line(0, "a\n", at(0), shown.show());
  folder.line(1, "a\n", at(0), shown.show());
  CHECK(shown.lines == Texts{"0:a\n", "1:a\n"});
}

TEST_CASE("nobody waits for a member that has ended") {
  LineFolder folder;
  Shown shown;
  open(folder, 3);
  for (int i = 0; i < 3; ++i) {
    folder.line(i, "done\n", at(i), shown.show());
    folder.close(i, at(i), shown.show());
  }
  CHECK(shown.lines == Texts{"0,1,2:done\n"});
  open(folder, 2);
  folder.line(0, "x\n", at(5), shown.show());
  folder.close(1, at(6), shown.show());
  CHECK(shown.lines.back() == "0:x\n");
}

TEST_CASE("what cannot be folded comes after what its member wrote before") {
  LineFolder folder;
  Shown shown;
  open(folder, 3);
  folder.line(0, "a\n", at(0), shown.show());
  folder.line(1, "b\n", at(0), shown.show());
  folder.line(2, "c\n", at(0), shown.show());
  folder.let_pass(1, shown.show());
  CHECK(shown.lines == Texts{"0:a\n", "1:b\n"});
  folder.let_pass(1, shown.show());
  CHECK(shown.lines.size() == 2);
}

TEST_CASE("whatever comes when, order, window and memory hold") {
  std::mt19937 random(20261121);
  for (int history = 0; history < 300; ++history) {
    LineFolder folder;
    const int members = 1 + int(random() % 9);
    open(folder, members);
    std::map<int, Texts> written, shown;
    std::map<int, std::deque<int>> waiting;  // since when
    int now = 0;
    auto show = [&](const std::vector<int>& who, std::string_view line) {
      for (int member : who) {
        shown[member].emplace_back(line);
        REQUIRE(now - waiting[member].front() <= 200);
        waiting[member].pop_front();
      }
    };
    std::vector<bool> open_now(size_t(members), true);
    for (int step = 0; step < 400; ++step) {
      const int next = now + int(random() % 20);
      while (folder.deadline() && *folder.deadline() <= at(next)) {
        now = int(std::chrono::duration_cast<milliseconds>(*folder.deadline() - at(0)).count());
        folder.on_time(at(now), show);
      }
      now = next;
      const int member = int(random() % unsigned(members));
      if (!open_now[size_t(member)]) continue;
      if (random() % 200 == 0) {
        open_now[size_t(member)] = false;
        folder.close(member, at(now), show);
      } else if (random() % 30 == 0) {
        folder.let_pass(member, show);
        REQUIRE(waiting[member].empty());
      } else {
        const size_t size = random() % 50 == 0 ? 200000 : 1;
        written[member].push_back(std::string(size, char('a' + random() % 4)) + "\n");
        waiting[member].push_back(now);
        folder.line(member, written[member].back(), at(now), show);
      }
      REQUIRE(folder.waiting_bytes() <= LineFolder::kMostBytes);
    }
    folder.show_all(show);
    REQUIRE(written == shown);
    REQUIRE_FALSE(folder.deadline());
    REQUIRE(folder.waiting_bytes() == 0);
  }
}

}  // namespace dtrain::launcher
