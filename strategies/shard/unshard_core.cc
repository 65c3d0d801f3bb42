#include "strategies/shard/unshard_core.h"

#include <algorithm>
#include <utility>

namespace dtrain {

UnshardCore::UnshardCore(std::vector<Facts> groups, int ahead) : ahead_(ahead) {
  for (const Facts& facts : groups) groups_.push_back({.facts = facts});
}

void UnshardCore::gather(Group group, Actions& actions) {
  One& one = groups_[group];
  if (one.state != State::sharded) return;
  one.state = State::coming;
  actions.push_back({Do::gather, group});
}

void UnshardCore::make_whole(Group group, Actions& actions) {
  gather(group, actions);
  One& one = groups_[group];
  if (one.state == State::whole) return;
  one.state = State::whole;
  actions.push_back({Do::wait, group});
}

void UnshardCore::free(Group group, Actions& actions) {
  One& one = groups_[group];
  if (one.state == State::sharded) return;
  if (one.state == State::coming) actions.push_back({Do::wait, group});
  one.state = State::sharded;
  actions.push_back({Do::free, group});
}

void UnshardCore::reduce(Group group, Actions& actions) {
  One& one = groups_[group];
  one.reduced = true;
  if (one.facts.trains) actions.push_back({Do::reduce, group});
}

int UnshardCore::waiting_to_be_used() const {
  return static_cast<int>(
      std::count_if(groups_.begin(), groups_.end(), [](const One& one) { return one.state == State::coming; }));
}

void UnshardCore::look_ahead(const std::vector<Group>& order, std::size_t place, int direction, Actions& actions) {
  auto next = static_cast<std::ptrdiff_t>(place);
  for (int i = 0; i < ahead_; ++i) {
    next += direction;
    if (next < 0 || next >= static_cast<std::ptrdiff_t>(order.size()) || waiting_to_be_used() >= ahead_) return;
    gather(order[static_cast<std::size_t>(next)], actions);
  }
}

UnshardCore::Actions UnshardCore::before_forward(Group group, bool learns) {
  Actions actions;
  One& one = groups_[group];
  ++one.running;
  make_whole(group, actions);
  // The same program runs again, as a rule: where it does not, nothing is gathered early.
  if (next_ >= last_order_.size() || last_order_[next_] != group) {
    const auto found = std::find(last_order_.begin(), last_order_.end(), group);
    next_ = static_cast<std::size_t>(found - last_order_.begin());
  }
  if (next_ < last_order_.size()) look_ahead(last_order_, next_++, 1, actions);
  if (learns) {
    order_.push_back(group);
    one.touched = true;
  }
  return actions;
}

UnshardCore::Actions UnshardCore::after_forward(Group group, bool learns, bool stays) {
  Actions actions;
  One& one = groups_[group];
  --one.running;
  if (learns) ++one.expected;
  if (one.running == 0 && !one.backward && !stays && (one.facts.resharded || !learns)) free(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::before_backward(Group group) {
  Actions actions;
  groups_[group].backward = true;
  make_whole(group, actions);
  const auto last = std::find(order_.rbegin(), order_.rend(), group);
  if (last != order_.rend()) look_ahead(order_, static_cast<std::size_t>(order_.rend() - last) - 1, -1, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::after_backward(Group group) {
  Actions actions;
  One& one = groups_[group];
  if (one.expected > 0) --one.expected;
  if (one.expected > 0) return actions;
  one.backward = false;
  reduce(group, actions);
  if (one.running == 0) free(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::end_backward() {
  Actions actions;
  for (Group group = groups_.size(); group-- > 0;) {
    One& one = groups_[group];
    one.backward = false;
    one.expected = 0;
    if (one.touched && !one.reduced) reduce(group, actions);
    if (one.running == 0) free(group, actions);
  }
  for (Group group = 0; group < groups_.size(); ++group) {
    One& one = groups_[group];
    if (one.reduced && one.facts.trains) actions.push_back({Do::wait_reduced, group});
    one.reduced = one.touched = false;
  }
  if (!order_.empty()) last_order_ = std::exchange(order_, {});
  next_ = 0;
  return actions;
}

UnshardCore::Actions UnshardCore::give_up() {
  Actions actions;
  for (Group group = 0; group < groups_.size(); ++group) {
    free(group, actions);
    One& one = groups_[group];
    one.running = one.expected = 0;
    one.backward = one.touched = one.reduced = false;
  }
  order_.clear();
  return actions;
}

UnshardCore::Actions UnshardCore::gather_all() {
  Actions actions;
  for (Group group = 0; group < groups_.size(); ++group) gather(group, actions);
  for (Group group = 0; group < groups_.size(); ++group) make_whole(group, actions);
  return actions;
}

}  // namespace dtrain
