#include "rendezvous/crypto/secret_memory.h"

#include <strings.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace dtrain {
namespace {

constexpr std::size_t kPage = 4096;  // or more: mmap and munmap round up

void give_back(std::uint8_t* page) {
  wipe(page, kSecretBytes);
  munmap(page, kPage);
}

}  // namespace

void wipe(void* memory, std::size_t size) { explicit_bzero(memory, size); }

Result<SecretMemory> SecretMemory::copy_of(SecretSpan bytes) {
  void* page = mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return system_error("memory for the job's secret", errno);
  madvise(page, kPage, MADV_DONTDUMP);
  mlock(page, kSecretBytes);  // out of swap, where the limit on locked memory allows it
  std::shared_ptr<std::uint8_t> owner(static_cast<std::uint8_t*>(page), give_back);
  std::memcpy(owner.get(), bytes.data(), bytes.size());
  return SecretMemory(std::move(owner));
}

}  // namespace dtrain
