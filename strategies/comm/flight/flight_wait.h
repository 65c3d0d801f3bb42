#pragma once
// What wakes the flight recorder's thread: words in memory, and a signal.
#include <atomic>
#include <cstdint>
#include <vector>

namespace dtrain {

// A word of this process that changes when the thread has something to do.
std::atomic<std::uint32_t>& flight_bell();
void ring_flight_bell() noexcept;

// Sleep until the bell is not `seen` any more or one of `words` is not 0, at most a minute. May return at any time
// before. The words' memory may go meanwhile, if the bell is rung then.
void sleep_on_flight_words(std::uint32_t seen, const std::vector<const std::atomic<std::uint32_t>*>& words);

// From now on this signal rings the bell. Nothing where the program has a handler of its own, or ignores it.
void catch_flight_signal(int signal);
// Whether it came since this was asked last.
bool flight_signal_came() noexcept;

}  // namespace dtrain
