// See generate.h.
#include "examples/gpt/generate.h"

#include <algorithm>
#include <random>

namespace gpt {

std::string generate(dtrain::Parallel<GptImpl>& model, const Corpus& corpus, const Settings& settings,
                     const torch::Device& device) {
  const torch::NoGradGuard no_grad;
  std::mt19937_64 random(settings.seed);
  std::vector<std::int64_t> text{corpus.number_of('\n')};
  for (std::int64_t i = 0; i < settings.generate; ++i) {
    const auto known = std::min(static_cast<std::int64_t>(text.size()), settings.context);
    const torch::Tensor last = torch::tensor(std::vector<std::int64_t>(text.end() - known, text.end())).unsqueeze(0);
    const torch::Tensor scores = model(last.to(device)).index({0, -1}).to(torch::kDouble) / 0.8;
    const torch::Tensor sums = torch::softmax(scores, 0).cumsum(0);
    const double drawn = std::uniform_real_distribution<double>(0, sums[-1].item<double>())(random);
    text.push_back(std::min((sums <= drawn).sum().item<std::int64_t>(), corpus.characters() - 1));
  }
  return corpus.text_of({text.begin() + 1, text.end()});
}

}  // namespace gpt
