// Fuzzes LineFolder and LinePicker: every line of every worker is shown once, in that worker's order, under no other's
// name, and what waits stays within the limit.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/output/line_folder.h"
#include "launcher/output/line_picker.h"
#include "rendezvous/base/check.h"

using namespace dtrain;
using namespace dtrain::launcher;

namespace {

constexpr int kMembers = 8;

struct Lines {
  std::map<int, std::string> written, shown;

  LineFolder::Show show() {
    return [this](const std::vector<int>& members, std::string_view line) {
      DT_CHECK(!members.empty(), "somebody wrote it");
      for (const int member : members) shown[member] += line;
    };
  }
};

// Each line: a byte that says what happens, then text. The last members write to the other stream.
void fold(std::string_view input) {
  LineFolder folder;
  Lines lines;
  const LineFolder::Show show = lines.show();
  MonoTime now{};
  for (int i = 0; i < kMembers; ++i) folder.open(i, i < kMembers - 2 ? 1 : 2);
  std::map<int, bool> closed;
  while (!input.empty()) {
    const auto op = static_cast<unsigned char>(input[0]);
    const std::size_t end = std::min(input.find('\n', 1), input.size() - 1);
    const int member = op % kMembers;
    if (op >= 0xf8) {
      folder.close(member, now, show);
      closed[member] = true;
    } else if (op >= 0xf0 && !closed[member]) {
      folder.let_pass(member, show);
      DT_CHECK(lines.shown[member] == lines.written[member], "nothing of this one waits");
    } else if (op >= 0xe0 && op < 0xf0) {
      now += std::chrono::milliseconds(op * 2);
      folder.on_time(now, show);
      DT_CHECK(!folder.deadline() || *folder.deadline() > now, "what is due is shown");
    } else if (!closed[member]) {
      const std::string_view line = input.substr(1, end);
      lines.written[member] += line;
      folder.line(member, line, now, show);
    }
    DT_CHECK(folder.waiting_bytes() <= LineFolder::kMostBytes, "what waits has a bound");
    DT_CHECK(folder.deadline().has_value() == (folder.waiting_bytes() > 0), "what waits has a deadline");
    input.remove_prefix(end + 1);
  }
  folder.show_all(show);
  for (const auto& [member, text] : lines.written) DT_CHECK(lines.shown[member] == text, "every line, in its order");
  DT_CHECK(folder.waiting_bytes() == 0, "nothing is left");
}

void pick(std::string_view input, unsigned cut) {
  LinePicker picker(std::make_shared<const TextSearch>(std::vector<std::string>{"er", "\n\n", std::string(1, '\0')}));
  std::string picked;
  const auto emit = [&](std::string_view line) {
    DT_CHECK(line.find("er") != std::string_view::npos || line.find('\0') != std::string_view::npos,
             "it was asked for");
    picked += line;
  };
  const std::string_view whole = input;
  for (; !input.empty(); input.remove_prefix(std::min<std::size_t>(input.size(), cut % 13 + 1)))
    picker.feed(input.substr(0, cut % 13 + 1), emit);
  picker.finish(emit);
  DT_CHECK(picked.size() <= whole.size(), "no byte is shown twice");
  DT_CHECK(whole.find("er") == std::string_view::npos || !picked.empty(), "what is there is found");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fold(input);
  pick(input.substr(1), data[0]);
  return 0;
}
