#pragma once
// A PrivateFolder that does not outlive the job: its folder on a host that lacks its files, or that of its credentials.
// A keeper, a process that nobody waits for and that has no other duty, makes it and removes it. It hears the end of
// this process and of those that it has forked, whatever they die of.
#include <string>

#include "rendezvous/base/result.h"
#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

class KeptFolder {
 public:
  // `kind` is a part of its name. Forks: call with one thread.
  static Result<KeptFolder> make(const std::string& kind);
  // Removes it, with what the job has written there.
  ~KeptFolder();
  KeptFolder(KeptFolder&&) noexcept = default;
  KeptFolder& operator=(KeptFolder&&) = delete;

  const std::string& path() const { return path_; }
  int descriptor() const { return held_.get(); }

 private:
  KeptFolder(std::string path, UniqueFd held, UniqueFd tie)
      : path_(std::move(path)), held_(std::move(held)), tie_(std::move(tie)) {}

  std::string path_;
  UniqueFd held_, tie_;  // the folder itself, locked; the socket to the keeper
};

}  // namespace dtrain::launcher
