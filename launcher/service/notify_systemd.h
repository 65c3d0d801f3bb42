#pragma once
// What systemd (Type=notify) wants to hear of a service. Tested by test/process/launcher/serve_test.py.
#include <string>

namespace dtrain::launcher {

// "READY=1" and the like, to the socket that NOTIFY_SOCKET names; nothing if there is none.
void notify_systemd(const std::string& state);

}  // namespace dtrain::launcher
