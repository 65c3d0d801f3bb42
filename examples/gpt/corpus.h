#pragma once
// A text as numbers: each character that occurs has one.
#include <torch/torch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace gpt {

class Corpus {
 public:
  // Throws std::runtime_error if the file cannot be read, or is shorter than `context` + 2 bytes.
  Corpus(const std::string& path, std::int64_t context);

  std::int64_t characters() const { return static_cast<std::int64_t>(alphabet_.size()); }
  std::int64_t size() const { return text_.size(0); }

  struct Batch {
    torch::Tensor inputs, targets;  // [stretches, context], int64; a target is the character after the input
  };
  // Stretches [first, first + count) of the global batch of this step: the same for any number of ranks.
  Batch batch(std::uint64_t seed, std::int64_t step, std::int64_t first, std::int64_t count) const;

  std::string text_of(const std::vector<std::int64_t>& numbers) const;
  // The number of a character; that of the first one if the text does not have it.
  std::int64_t number_of(char character) const;

 private:
  std::int64_t context_;
  std::string alphabet_;
  torch::Tensor text_;  // [bytes], uint8
};

}  // namespace gpt
