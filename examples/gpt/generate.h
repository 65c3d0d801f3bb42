#pragma once
// Text that a model writes.
#include "examples/gpt/corpus.h"
#include "examples/gpt/model.h"
#include "examples/gpt/settings.h"

namespace gpt {

// All ranks call it, and get the same text: settings.generate characters that follow a line break. `device`: where the
// model is.
std::string generate(dtrain::Parallel<GptImpl>& model, const Corpus& corpus, const Settings& settings,
                     const torch::Device& device);

}  // namespace gpt
