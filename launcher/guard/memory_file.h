#pragma once
// Files in memory, without a name, which end with their last descriptor.
#include <sys/mman.h>

#include <cerrno>

#include "rendezvous/base/unique_fd.h"

namespace dtrain::launcher {

// `flags` beside MFD_CLOEXEC. Nothing, with errno, if the kernel makes none.
inline UniqueFd make_memory_file(const char* name, unsigned flags = 0) {
  // MFD_NOEXEC_SEAL, which glibc 2.36 does not define. Where vm.memfd_noexec is 2, the kernel allows no memfd without
  // this flag. Linux knows the flag since 6.3.
  constexpr unsigned kNoExec = 0x0008;
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | flags | kNoExec));
  if (!fd && errno == EINVAL) fd = UniqueFd(::memfd_create(name, MFD_CLOEXEC | flags));
  return fd;
}

}  // namespace dtrain::launcher
