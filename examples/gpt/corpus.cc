// See corpus.h.
#include "examples/gpt/corpus.h"

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <stdexcept>

namespace gpt {

Corpus::Corpus(const std::string& path, std::int64_t context) : context_(context) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (!file && bytes.empty())
    throw std::runtime_error("cannot read " + path + "; name a text file with --data, or run scripts/setup.sh test");
  if (static_cast<std::int64_t>(bytes.size()) < context + 2)
    throw std::runtime_error(path + " has " + std::to_string(bytes.size()) + " bytes, too few for --context " +
                             std::to_string(context));
  std::array<bool, 256> occurs{};
  for (const char each : bytes) occurs[static_cast<unsigned char>(each)] = true;
  std::array<std::uint8_t, 256> numbers{};
  for (std::size_t c = 0; c < occurs.size(); ++c) {
    if (!occurs[c]) continue;
    numbers[c] = static_cast<std::uint8_t>(alphabet_.size());
    alphabet_.push_back(static_cast<char>(c));
  }
  text_ = torch::empty({static_cast<std::int64_t>(bytes.size())}, torch::kUInt8);
  auto* const out = text_.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = numbers[static_cast<unsigned char>(bytes[i])];
}

Corpus::Batch Corpus::batch(std::uint64_t seed, std::int64_t step, std::int64_t first, std::int64_t count) const {
  std::vector<torch::Tensor> inputs, targets;
  for (std::int64_t i = first; i < first + count; ++i) {
    std::seed_seq mix{seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(i)};
    std::mt19937_64 random(mix);
    const auto begin = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size() - context_));
    inputs.push_back(text_.narrow(0, begin, context_));
    targets.push_back(text_.narrow(0, begin + 1, context_));
  }
  return {torch::stack(inputs).to(torch::kLong), torch::stack(targets).to(torch::kLong)};
}

std::string Corpus::text_of(const std::vector<std::int64_t>& numbers) const {
  std::string text;
  for (const std::int64_t each : numbers) text.push_back(alphabet_[static_cast<std::size_t>(each)]);
  return text;
}

std::int64_t Corpus::number_of(char character) const {
  const std::size_t found = alphabet_.find(character);
  return found == std::string::npos ? 0 : static_cast<std::int64_t>(found);
}

}  // namespace gpt
