#pragma once
// What a forked child has of what its parent shares with other processes: nothing, for it is none of those, and must
// not change what they work with. Memory: a touch ends the child (SIGSEGV); objects that lie there may be dropped, if
// they are not looked into. Descriptors: they are of /dev/null, so that a connection ends with the rank whatever it has
// forked. fork() arranges that, not a bare clone(), nor vfork() and posix_spawn(), whose children only go on to another
// program.
#include <cstddef>

namespace dtrain {

// Any thread. Throws std::system_error.
void hide_from_children(std::byte* base, std::size_t bytes);
void hide_from_children(int descriptor);
// Before it is unmapped or closed, or where its owner arranges otherwise.
void no_longer_hide(std::byte* base);
void no_longer_hide(int descriptor);

}  // namespace dtrain
