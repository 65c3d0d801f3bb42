#pragma once
// The lease of an entry, as a file, and whether the process that it names lives.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "data/cache/lease_plan.h"
#include "data/cache/posix_files.h"

namespace dtrain::data {

// This process, with an owner that no other build has.
Lease own_lease();

// Nothing: there is none. One that cannot be read has its text as its owner, so that it becomes stale.
std::optional<Lease> read_lease(const std::filesystem::path& file);

// The kernel of this machine says so: the boot is another, or the process is gone.
bool is_dead_here(const Lease& lease);

// Held from here until it is given back, at the latest at the end of its life. If the lock cannot be had then, the
// lease stays and becomes stale.
class HeldLease {
 public:
  // Call with the folder's lock. Nothing: another one than `replaced` is there.
  static std::unique_ptr<HeldLease> take(const std::filesystem::path& file, const std::optional<Lease>& replaced);

  ~HeldLease();
  HeldLease(const HeldLease&) = delete;
  HeldLease& operator=(const HeldLease&) = delete;

  const std::string& job() const { return lease_.owner; }
  // False: another job has replaced it.
  bool is_ours() const;
  void beat();
  // Call with the folder's lock: else it might remove the lease of who has just replaced this one.
  void give_back();

 private:
  HeldLease(std::filesystem::path path, Lease lease, OwnedFd file)
      : path_(std::move(path)), lease_(std::move(lease)), file_(std::move(file)) {}

  std::filesystem::path path_;
  Lease lease_;
  OwnedFd file_;
  bool given_back_ = false;
};

}  // namespace dtrain::data
