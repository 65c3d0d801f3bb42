#include "launcher/output/line_folder.h"

#include <algorithm>

namespace dtrain::launcher {

void LineFolder::open(int member, int kind) { members_[member] = {kind, 0}; }

void LineFolder::close(int member, MonoTime now, const Show& show) {
  auto it = members_.find(member);
  if (it == members_.end()) return;
  const char kind = static_cast<char>(it->second.kind);
  members_.erase(it);
  for (Line& line : lines_) {
    const bool wrote = std::find(line.members.begin(), line.members.end(), member) != line.members.end();
    if (line.key[0] == kind && !wrote) --line.missing;
  }
  settle(now, show);
}

void LineFolder::line(int member, std::string_view text, MonoTime now, const Show& show) {
  Member& writer = members_[member];
  std::string key(1, static_cast<char>(writer.kind));
  key += text;
  std::deque<uint64_t>& numbers = numbers_[key];
  auto found = std::lower_bound(numbers.begin(), numbers.end(), writer.next);
  uint64_t number = 0;
  if (found != numbers.end()) {
    number = *found;
    at(number).members.push_back(member);
    --at(number).missing;
  } else {
    number = first_ + lines_.size();
    numbers.push_back(number);
    int others = -1;
    for (const auto& [id, m] : members_) others += m.kind == writer.kind ? 1 : 0;
    bytes_ += text.size() + kLineCost;
    lines_.push_back({std::move(key), now + kWindow, {member}, others});
  }
  writer.next = number + 1;
  settle(now, show);
}

void LineFolder::let_pass(int member, const Show& show) {
  auto it = members_.find(member);
  while (it != members_.end() && !lines_.empty() && first_ < it->second.next) show_first(show);
}

void LineFolder::show_all(const Show& show) {
  while (!lines_.empty()) show_first(show);
}

std::optional<MonoTime> LineFolder::deadline() const {
  if (lines_.empty()) return std::nullopt;
  return lines_.front().deadline;
}

void LineFolder::settle(MonoTime now, const Show& show) {
  while (!lines_.empty() && (lines_.front().missing <= 0 || lines_.front().deadline <= now || bytes_ > kMostBytes)) {
    show_first(show);
  }
}

void LineFolder::show_first(const Show& show) {
  const Line line = std::move(lines_.front());
  lines_.pop_front();
  ++first_;
  bytes_ -= line.key.size() - 1 + kLineCost;
  auto numbers = numbers_.find(line.key);
  numbers->second.pop_front();
  if (numbers->second.empty()) numbers_.erase(numbers);
  show(line.members, std::string_view(line.key).substr(1));
}

}  // namespace dtrain::launcher
