#pragma once
// Writes a memory to a file, and fills one from a file. The file has its name only when it is complete and on the disk,
// and it is its owner's alone. All of these block; errors name the file. Files of one node that belong together get
// their names when all are written.
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "launcher/spill/state_file_wire.h"
#include "rendezvous/base/clock.h"
#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// To be used with the functions below. An error: it is not there, or no folder.
Result<UniqueFd> open_state_folder(const std::string& path);

// A file that is written and on the disk, but does not count yet. It goes with this object.
class WrittenState {
 public:
  virtual ~WrittenState() = default;
  // It takes its unfinished name. No room is needed for publish() then.
  virtual Result<void> prepare() = 0;
  // After prepare(): it takes the place of the file of the same owner.
  virtual Result<void> publish() = 0;
};

// An error, also that `until` has passed, leaves nothing. Nobody writes to the memory meanwhile. `folder` outlives the
// result.
Result<std::unique_ptr<WrittenState>> write_state_file(int folder, const StateHead& head, int memory, MonoTime until);

// Into the memory, which is empty. False: there is no such file. `given_up`: asked again and again. After an error the
// memory has a part of the state, and is to be thrown away.
Result<bool> read_state_file(int folder, const StateOwner& owner, int memory, const std::function<bool()>& given_up);

// Removes the job's files of one node, or of all; how many there were.
Result<int> remove_state_files(int folder, const std::string& job, std::optional<int> node);

// What a memory has; 0: the worker has kept nothing.
Result<std::uint64_t> state_bytes(int memory);

}  // namespace dtrain::launcher
