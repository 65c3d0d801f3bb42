// See include/dtrain/mesh_layout.h. Pure.
#include "dtrain/mesh_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

namespace dtrain {
namespace {

constexpr std::int64_t kMostRanks = 1 << 24;  // ranks; a product that stays below it cannot overflow

void check_dimensions(const std::vector<MeshDimension>& dimensions, int world_size) {
  if (dimensions.empty()) throw ConfigError("dtrain: a mesh needs a dimension, such as {\"replicate\", 2}");
  std::int64_t ranks = 1;
  for (auto one = dimensions.begin(); one != dimensions.end(); ++one) {
    const auto same_name = [one](const MeshDimension& other) { return other.name == one->name; };
    if (one->name.empty() || std::any_of(dimensions.begin(), one, same_name))
      throw ConfigError(fmt::format("dtrain: mesh {}: each dimension needs a name of its own", text_of(dimensions)));
    if (one->size < 1)
      throw ConfigError(fmt::format("dtrain: mesh {}: each size must be at least 1", text_of(dimensions)));
    ranks = std::min(ranks * one->size, kMostRanks);
  }
  if (ranks != world_size) {
    throw ConfigError(
        fmt::format("dtrain: mesh {} does not fit the {} ranks: the product of the sizes must be the world size",
                    text_of(dimensions), world_size));
  }
}

}  // namespace

std::string text_of(const std::vector<MeshDimension>& dimensions) {
  std::vector<std::string> texts;
  texts.reserve(dimensions.size());
  for (const MeshDimension& one : dimensions) texts.push_back(fmt::format("{} {}", one.name, one.size));
  return fmt::format("{}", fmt::join(texts, " x "));
}

MeshLayout::MeshLayout(std::vector<MeshDimension> dimensions, int world_size) : dimensions_(std::move(dimensions)) {
  check_dimensions(dimensions_, world_size);
}

std::size_t MeshLayout::axis(const std::string& name) const {
  const auto found =
      std::find_if(dimensions_.begin(), dimensions_.end(), [&](const MeshDimension& one) { return one.name == name; });
  if (found == dimensions_.end())
    throw ConfigError(fmt::format("dtrain: mesh {} has no dimension '{}'", text_of(dimensions_), name));
  return static_cast<std::size_t>(found - dimensions_.begin());
}

std::vector<int> MeshLayout::coordinates(int rank) const {
  std::vector<int> found(dimensions_.size());
  for (std::size_t d = dimensions_.size(); d-- > 0; rank /= dimensions_[d].size) found[d] = rank % dimensions_[d].size;
  return found;
}

int MeshLayout::rank_at(const std::vector<int>& coordinates) const {
  bool there = coordinates.size() == dimensions_.size();
  int rank = 0;
  for (std::size_t d = 0; there && d < dimensions_.size(); ++d) {
    there = coordinates[d] >= 0 && coordinates[d] < dimensions_[d].size;
    rank = rank * dimensions_[d].size + coordinates[d];
  }
  if (there) return rank;
  throw ConfigError(
      fmt::format("dtrain: mesh {} has no place [{}]", text_of(dimensions_), fmt::join(coordinates, ", ")));
}

std::vector<int> MeshLayout::line(const std::string& name, int rank) const {
  const std::size_t along = axis(name);
  std::vector<int> place = coordinates(rank);
  std::vector<int> ranks;
  for (place[along] = 0; place[along] < dimensions_[along].size; ++place[along]) ranks.push_back(rank_at(place));
  return ranks;
}

}  // namespace dtrain
