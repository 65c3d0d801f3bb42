// See forked_children.h.
#include "strategies/comm/base/forked_children.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <set>
#include <system_error>

namespace dtrain {
namespace {

// In a child the mappings stay, without memory, and the descriptors, until their objects are destroyed: nothing else
// gets their places and numbers.
class Hidden {
 public:
  static Hidden& all() {
    static auto* one = new Hidden;
    return *one;
  }

  void add(std::byte* base, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    mappings_[base] = bytes;
  }
  void remove(std::byte* base) {
    const std::lock_guard lock(mutex_);
    mappings_.erase(base);
  }
  void add(int descriptor) {
    const std::lock_guard lock(mutex_);
    descriptors_.insert(descriptor);
  }
  void remove(int descriptor) {
    const std::lock_guard lock(mutex_);
    descriptors_.erase(descriptor);
  }

 private:
  Hidden() {
    const int error =
        ::pthread_atfork([] { all().mutex_.lock(); }, [] { all().mutex_.unlock(); }, [] { all().hide(); });
    if (error != 0) throw std::system_error(error, std::generic_category(), "pthread_atfork");
  }

  void hide() {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    for (const auto& [base, bytes] : mappings_) ::mmap(base, bytes, PROT_NONE, kFlags, -1, 0);
    const int null = descriptors_.empty() ? -1 : ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int descriptor : descriptors_) ::dup3(null, descriptor, O_CLOEXEC);
    if (null >= 0) ::close(null);
    mutex_.unlock();
  }

  std::mutex mutex_;
  std::map<std::byte*, std::size_t> mappings_;
  std::set<int> descriptors_;
};

}  // namespace

void hide_from_children(std::byte* base, std::size_t bytes) { Hidden::all().add(base, bytes); }
void hide_from_children(int descriptor) { Hidden::all().add(descriptor); }

void no_longer_hide(std::byte* base) { Hidden::all().remove(base); }
void no_longer_hide(int descriptor) { Hidden::all().remove(descriptor); }

}  // namespace dtrain
