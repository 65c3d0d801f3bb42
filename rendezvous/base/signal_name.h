#pragma once
// Names of signals, also where the C library has none (glibc before 2.32). Pure.

namespace dtrain {

// "TERM" for SIGTERM; null for real-time signals and for what is no signal.
const char* signal_abbreviation(int signal);

}  // namespace dtrain
