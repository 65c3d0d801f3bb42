#pragma once
// Work that may hang, or that brings threads and libraries with it, done in a child.
#include <chrono>
#include <functional>
#include <string>

#include "rendezvous/base/result.h"

namespace dtrain::cli {

struct ChildAnswer {
  enum class End { answered, late, failed, not_started } end = End::not_started;
  std::string text;  // what `work` gave, at most 1 MiB of it
};

// A child does the work, and its text comes back. It is killed when `patience` is over, and when the caller dies.
// Forks: call with one thread.
ChildAnswer ask_child(const std::function<std::string()>& work, std::chrono::milliseconds patience);

}  // namespace dtrain::cli
