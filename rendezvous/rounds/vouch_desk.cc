#include "rendezvous/rounds/vouch_desk.h"

#include <utility>
#include <vector>

namespace dtrain {

void VouchDesk::came(MemberId member, const std::string& address) {
  addresses_[member] = address;
  members_.emplace(address, member);
}

void VouchDesk::left(MemberId member) {
  const auto known = addresses_.find(member);
  if (known == addresses_.end()) return;
  const auto [first, end] = members_.equal_range(known->second);
  for (auto at = first; at != end; ++at) {
    if (at->second != member) continue;
    members_.erase(at);
    break;
  }
  addresses_.erase(known);
  std::vector<std::uint64_t> waiting;
  for (const auto& [number, question] : questions_)
    if (question.asked.contains(member)) waiting.push_back(number);
  // An answer may ask again, or let somebody else go.
  for (const std::uint64_t number : waiting) answered(member, {number, false});
}

void VouchDesk::question(const TcpEnds& ends, Answer answer) {
  Question question{{}, std::move(answer)};
  const auto [first, end] = members_.equal_range(ends.own);
  for (auto at = first; at != end; ++at) question.asked.insert(at->second);
  if (question.asked.empty()) return question.answer(false);
  if (questions_.size() >= kMost) questions_.erase(questions_.begin());
  const std::uint64_t number = ++last_;
  const std::set<MemberId> asked = question.asked;
  questions_.emplace(number, std::move(question));
  for (const MemberId member : asked) ask_(member, {number, ends});
}

void VouchDesk::answered(MemberId member, const msg::Owned& said) {
  const auto question = questions_.find(said.question);
  if (question == questions_.end() || question->second.asked.erase(member) == 0) return;
  if (!said.yes && !question->second.asked.empty()) return;
  const Answer answer = std::move(question->second.answer);
  questions_.erase(question);
  answer(said.yes);
}

}  // namespace dtrain
