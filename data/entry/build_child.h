#pragma once
// What fills the folder of an entry, in a process of its own: it can be stopped at any point, and its death does not
// take the lease along.
#include <functional>
#include <string>

#include "data/entry/stop_signals.h"

namespace dtrain::data {

// Runs `work` in a child, and meanwhile `beat` every few seconds here. Returns when the child has ended well.
// CacheError: what the child has thrown, or how it died. If this process is asked to end, or `beat` throws, the child
// is killed first. It also dies when this process dies. Forks: call with one thread.
void run_in_child(const std::function<void()>& work, const std::function<void()>& beat, const StopSignals& signals);

// What `work` says, which runs in a child: the threads that it starts are not in this process, which may fork again.
// CacheError, as above.
std::string said_by_child(const std::function<std::string()>& work);

}  // namespace dtrain::data
