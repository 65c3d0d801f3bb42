#include "strategies/shard/unshard_core.h"

#include <algorithm>
#include <utility>

namespace dtrain {
namespace {

constexpr std::size_t kMostRuns = 64;  // of a group, on average, that the order of an iteration holds

}  // namespace

UnshardCore::UnshardCore(std::vector<Facts> groups, int ahead, Reduce reduce, std::int64_t ahead_bytes,
                         std::size_t reducing)
    : ahead_(ahead), ahead_bytes_(ahead_bytes), when_(reduce), most_reducing_(reducing) {
  for (const Facts& facts : groups) groups_.push_back({.facts = facts});
}

void UnshardCore::gather(Group group, Actions& actions) {
  One& one = groups_[group];
  if (one.state != State::sharded && one.state != State::near) return;
  // The first values, which nobody spoke of.
  if (last_left_ == kNoEvent) note_updated(actions);
  one.state = State::coming;
  ++coming_;
  coming_bytes_ += one.facts.bytes;
  actions.push_back({Do::gather, Stream::gather, last_left_, event(group, Mark::gathered), group});
}

void UnshardCore::wait_gathered(Group group, Actions& actions) {
  One& one = groups_[group];
  if (one.state != State::coming) return;
  one.state = State::whole;
  --coming_;
  coming_bytes_ -= one.facts.bytes;
  actions.push_back({Do::wait, Stream::compute, event(group, Mark::gathered), kNoEvent, group});
}

void UnshardCore::make_whole(Group group, Actions& actions) {
  gather(group, actions);
  wait_gathered(group, actions);
}

void UnshardCore::leave(Do how, Group group, Actions& actions) {
  last_left_ = event(group, Mark::left);
  actions.push_back({how, Stream::compute, kNoEvent, last_left_, group});
}

void UnshardCore::free(Group group, Actions& actions) {
  One& one = groups_[group];
  if (one.state == State::sharded || holders_ > 0) return;
  wait_gathered(group, actions);
  one.state = State::sharded;
  leave(Do::free, group, actions);
}

bool UnshardCore::is_used(const One& one) const { return one.running > 0 || one.backward || one.stays || holders_ > 0; }

void UnshardCore::free_if_unused(Group group, Actions& actions) {
  if (!is_used(groups_[group])) free(group, actions);
}

void UnshardCore::reduce(Group group, Actions& actions) {
  One& one = groups_[group];
  if (!one.facts.trains || !sync_) return;
  one.reduced = true;
  if (std::find(reducing_.begin(), reducing_.end(), group) != reducing_.end()) wait_reduced(group, actions);
  if (reducing_.size() == most_reducing_) wait_reduced(reducing_.front(), actions);
  reducing_.push_back(group);
  const Event filled = event(group, Mark::filled);
  actions.push_back({Do::filled, Stream::compute, kNoEvent, filled, group});
  actions.push_back({Do::reduce, Stream::reduce, filled, kNoEvent, group});
}

// And for those that began before it: the average over copies of the model is a collective too.
void UnshardCore::wait_reduced(Group group, Actions& actions) {
  for (bool done = false; !done;) {
    const Group first = reducing_.front();
    const Event reduced = event(first, Mark::reduced);
    reducing_.erase(reducing_.begin());
    actions.push_back({Do::average, Stream::reduce, kNoEvent, reduced, first});
    actions.push_back({Do::wait_reduced, Stream::compute, reduced, kNoEvent, first});
    done = first == group;
  }
}

void UnshardCore::look_ahead(const std::vector<Group>& order, std::size_t place, int direction, Actions& actions) {
  auto next = static_cast<std::ptrdiff_t>(place);
  for (int i = 0; i < ahead_; ++i) {
    next += direction;
    if (next < 0 || next >= static_cast<std::ptrdiff_t>(order.size()) || coming_ >= ahead_) return;
    const Group group = order[static_cast<std::size_t>(next)];
    const One& one = groups_[group];
    const bool is_there = one.state == State::whole || one.state == State::coming;
    if (!is_there && one.facts.bytes > ahead_bytes_ - coming_bytes_) return;
    gather(group, actions);
  }
}

void UnshardCore::look_back_from(Group group, Actions& actions) {
  const auto last = std::find(order_.rbegin(), order_.rend(), group);
  if (last != order_.rend()) look_ahead(order_, static_cast<std::size_t>(order_.rend() - last) - 1, -1, actions);
}

void UnshardCore::begin_iteration() {
  if (!order_.empty()) last_order_ = std::exchange(order_, {});
  next_ = 0;
  // Before that, backward may yet come to the forwards of the iteration before.
  if (!std::exchange(backward_ended_, false)) return;
  for (One& one : groups_) one.ran = 0;
}

void UnshardCore::begin_forward(bool learns) {
  if (backward_) return;
  if (learns) begin_iteration();
  records_ = learns;
  next_ = 0;
}

UnshardCore::Actions UnshardCore::before_forward(Group group, bool learns) {
  Actions actions;
  if (learns && backward_ended_ && !backward_) begin_iteration();
  One& one = groups_[group];
  ++one.running;
  make_whole(group, actions);
  if (backward_) {
    look_back_from(group, actions);
    return actions;
  }
  // The same program runs again, as a rule: where it does not, nothing is gathered early.
  if (next_ >= last_order_.size() || last_order_[next_] != group) {
    const auto found = std::find(last_order_.begin(), last_order_.end(), group);
    next_ = static_cast<std::size_t>(found - last_order_.begin());
  }
  if (next_ < last_order_.size()) look_ahead(last_order_, next_++, 1, actions);
  if ((learns || records_) && order_.size() < kMostRuns * groups_.size()) order_.push_back(group);
  return actions;
}

UnshardCore::Actions UnshardCore::after_forward(Group group, Return back) {
  Actions actions;
  One& one = groups_[group];
  --one.running;
  if (back == Return::unannounced) one.stays = true;
  if (back == Return::announced || back == Return::unannounced) ++(backward_ ? one.reran : one.ran);
  // What runs within backward is gone back through at once.
  if (backward_ && back == Return::announced) one.backward = true;
  if (back == Return::never || one.facts.between == Between::sharded) {
    free_if_unused(group, actions);
  } else if (one.facts.between == Between::near && one.state == State::whole && !is_used(one)) {
    one.state = State::near;
    leave(Do::share_near, group, actions);
  }
  return actions;
}

UnshardCore::Actions UnshardCore::forward_failed(Group group) {
  // Perhaps one that did not come to this group.
  if (groups_[group].running == 0) return {};
  return after_forward(group, Return::never);
}

void UnshardCore::begin_backward(bool sync) {
  backward_ = true;
  sync_ = sync;
  next_reduced_ = 0;
  for (One& one : groups_) {
    one.passed = one.reran = 0;
    one.backward = one.reduced = one.all_came = false;
  }
}

UnshardCore::Actions UnshardCore::before_backward(Group group) {
  Actions actions;
  groups_[group].backward = true;
  make_whole(group, actions);
  look_back_from(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::after_backward(Group group) {
  Actions actions;
  One& one = groups_[group];
  if (++one.passed < one.ran + one.reran) return actions;
  one.backward = false;
  if (when_ == Reduce::passed) reduce(group, actions);
  free_if_unused(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::before_gradient(Group group) {
  Actions actions;
  if (std::find(reducing_.begin(), reducing_.end(), group) != reducing_.end()) wait_reduced(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::gradient_came(Group group, bool all) {
  Actions actions;
  groups_[group].reduced = false;
  groups_[group].all_came = all;
  if (when_ != Reduce::in_order) return actions;
  while (next_reduced_ < groups_.size() && (groups_[next_reduced_].all_came || !groups_[next_reduced_].facts.trains))
    reduce(next_reduced_++, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::end_backward() {
  Actions actions;
  backward_ = false;
  backward_ended_ = true;
  for (Group i = 0; i < groups_.size(); ++i) {
    // Backward comes to the last unit first.
    const Group group = when_ == Reduce::in_order ? i : groups_.size() - 1 - i;
    One& one = groups_[group];
    one.backward = one.stays = false;
    if (!one.reduced) reduce(group, actions);
    free_if_unused(group, actions);
  }
  while (!reducing_.empty()) wait_reduced(reducing_.front(), actions);
  return actions;
}

UnshardCore::Actions UnshardCore::backward_failed() {
  Actions actions;
  if (!std::exchange(backward_, false)) return actions;
  backward_ended_ = true;
  for (Group group = 0; group < groups_.size(); ++group) {
    One& one = groups_[group];
    one.backward = one.stays = false;
    free_if_unused(group, actions);
  }
  while (!reducing_.empty()) wait_reduced(reducing_.front(), actions);
  return actions;
}

UnshardCore::Actions UnshardCore::hold() {
  Actions actions;
  ++holders_;
  for (Group group = 0; group < groups_.size(); ++group) gather(group, actions);
  for (Group group = 0; group < groups_.size(); ++group) make_whole(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::release() {
  Actions actions;
  --holders_;
  for (Group group = 0; group < groups_.size(); ++group) free_if_unused(group, actions);
  return actions;
}

UnshardCore::Actions UnshardCore::free_all() {
  Actions actions;
  for (Group group = 0; group < groups_.size(); ++group) {
    One& one = groups_[group];
    one.running = 0;
    one.backward = one.stays = false;
    free(group, actions);
  }
  return actions;
}

void UnshardCore::note_updated(Actions& actions) {
  last_left_ = static_cast<Event>(kEventsOfGroup * groups_.size());
  actions.push_back({Do::updated, Stream::compute, kNoEvent, last_left_, 0});
}

UnshardCore::Actions UnshardCore::updated() {
  Actions actions = free_all();
  note_updated(actions);
  return actions;
}

}  // namespace dtrain
