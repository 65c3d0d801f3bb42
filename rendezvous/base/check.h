#pragma once
// DT_CHECK(condition, "why it must hold"): an invariant of our own code. On in release builds: a launcher that has lost
// track of its workers must stop rather than guess. Never for input from outside (see result.h).
namespace dtrain {

// Print file, line, expression and reason to stderr and abort.
[[noreturn]] void check_failed(const char* file, int line, const char* expression, const char* why);

}  // namespace dtrain

#define DT_CHECK(condition, why) \
  (static_cast<bool>(condition) ? void(0) : ::dtrain::check_failed(__FILE__, __LINE__, #condition, why))
