#pragma once
// Text that a model writes.
#include "examples/gpt/corpus.h"
#include "examples/gpt/model.h"

namespace gpt {

// All ranks call it, and get the same text. `count` characters that follow a line break.
std::string generate(dtrain::Parallel<GptImpl>& model, const Corpus& corpus, std::int64_t context, std::int64_t count,
                     std::uint64_t seed);

}  // namespace gpt
