// The memory of batches.
#include "data/base/host_batch.h"

#include <malloc.h>

#include <deque>

#include "test/support/catch.h"

using namespace dtrain::data;

TEST_CASE("a block is as aligned as torch's memory") {
  std::vector<Block> blocks;
  for (std::size_t bytes = 0; bytes < 500; bytes += 7) {
    blocks.push_back(new_block(bytes));
    CHECK(reinterpret_cast<std::uintptr_t>(blocks.back().get()) % 64 == 0);
    std::fill_n(blocks.back().get(), bytes, std::byte{255});
  }
}

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("blocks that come and go take the memory of those that are there at once") {
  constexpr std::size_t bytes = 100'000, at_once = 6;  // less than what malloc takes from the kernel alone
  const auto taken = [] { return mallinfo2().arena + mallinfo2().hblkhd; };
  const std::size_t before = taken();
  std::deque<Block> blocks;
  std::vector<Block> small;
  for (int batch = 0; batch < 500; ++batch) {
    if (blocks.size() == at_once) blocks.pop_front();
    blocks.push_back(new_block(bytes));
    if (batch % 10 == 0) small.push_back(new_block(8));
  }
  CHECK(taken() - before < (at_once + 1) * bytes + 300'000);  // malloc grows in steps of 132 kB
}
#endif
