#pragma once
// Inside a user namespace that does not know all users of the host, the kernel shows those that it does not know as one
// and the same uid, the overflow uid (65534, as a rule). It is a name for "somebody", not a user.
#include <sys/types.h>

#include <optional>
#include <string_view>

namespace dtrain {

// The uid that may be anybody's here; none: all users are known.
std::optional<uid_t> uid_of_anybody();

// Whether a namespace with this /proc/self/uid_map knows all users. Pure.
bool knows_all_users(std::string_view uid_map);

// Whether a process is of this very user, by what this process may see of it in /proc.
bool may_look_into(pid_t pid);

}  // namespace dtrain
