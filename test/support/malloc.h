#pragma once
// Whether malloc is a sanitizer's. That keeps for a while what is freed, so what a process has from the kernel says
// nothing of what it holds.

namespace dtrain::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kOtherMalloc = true;
#else
inline constexpr bool kOtherMalloc = false;
#endif

}  // namespace dtrain::test
