#pragma once
// The job's folder on a host that lacks its files: a PrivateFolder. A keeper, a process that nobody waits for and that
// has no other duty, makes it and removes it. It hears the end of this process and of those that it has forked,
// whatever they die of.
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class ShipFolder {
 public:
  // Forks: call with one thread.
  static Result<ShipFolder> make();
  // Removes it, with what the job has written there.
  ~ShipFolder();
  ShipFolder(ShipFolder&&) noexcept = default;
  ShipFolder& operator=(ShipFolder&&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return held_.get(); }

 private:
  ShipFolder(std::string path, UniqueFd held, UniqueFd tie)
      : path_(std::move(path)), held_(std::move(held)), tie_(std::move(tie)) {}

  std::string path_;
  UniqueFd held_, tie_;  // the folder itself, locked; the socket to the keeper
};

}  // namespace dtrain::launcher
