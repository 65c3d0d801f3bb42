// Fuzzes the head of a file with kept state, and names of such files: what the parser takes comes through as it is, and
// a name belongs to one job and node.
#include <cstdint>
#include <string>

#include "launcher/spill/state_file_wire.h"
#include "rendezvous/base/check.h"

using namespace dtrain;
using namespace dtrain::launcher;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  (void)is_state_file(text, "a", {});
  const std::string job = text.substr(0, 100);
  const std::string name = state_file_name({job, 3, 4, 1, 2, size % 2 == 0});
  DT_CHECK(name.find('/') == std::string::npos && name.find('\0') == std::string::npos, "a name of a file");
  DT_CHECK(is_state_file(name, job, 3) && !is_state_file(name, job, 4) && !is_state_file(name, job + "x", {}),
           "it belongs to one job and node");

  text.resize(kStateHeadBytes - 1, ' ');  // as short inputs are more
  const auto head = parse_state_head(text + "\n");
  if (!head) {
    DT_CHECK(!head.error().message.empty() && head.error().message.find('\n') == std::string::npos, "one line");
    return 0;
  }
  DT_CHECK(head->bytes <= kMostStateBytes && head->owner.node >= 0 && head->owner.worker >= 0, "numbers in bounds");
  if (head->owner.job.size() <= 256) DT_CHECK(*parse_state_head(state_head_text(*head)) == *head, "it comes back");
  return 0;
}
