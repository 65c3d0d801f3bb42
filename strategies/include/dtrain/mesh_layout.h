#pragma once
// MeshLayout says where each rank stands in a mesh. Pure: no torch, and no other rank is asked.
#include <string>
#include <vector>

#include "dtrain/worker_env.h"

namespace dtrain {

struct MeshDimension {
  std::string name;
  int size = 1;
};

// Ranks fill the mesh along its last dimension first. In {{"replicate", 2}, {"shard", 3}}, ranks 0, 1, 2 are a line
// along "shard", and ranks 0, 3 are a line along "replicate". torch's init_device_mesh has the same order.
class MeshLayout {
 public:
  // Throws ConfigError if there is no dimension, if a name is empty or is there twice, if a size is less than 1, or if
  // the product of the sizes is not the world size.
  MeshLayout(std::vector<MeshDimension> dimensions, int world_size);

  const std::vector<MeshDimension>& dimensions() const { return dimensions_; }
  // The number of the dimension with this name, from 0. Throws ConfigError if there is no such dimension.
  std::size_t axis(const std::string& name) const;
  // The number of ranks along the dimension with this name.
  int size(const std::string& name) const { return dimensions_[axis(name)].size; }

  // The place of a rank: one number for each dimension.
  std::vector<int> coordinates(int rank) const;
  // The rank at a place. Throws ConfigError if the mesh has no such place.
  int rank_at(const std::vector<int>& coordinates) const;
  // `rank` and the ranks that differ from it in this coordinate alone, in order.
  std::vector<int> line(const std::string& name, int rank) const;

 private:
  std::vector<MeshDimension> dimensions_;
};

// A text such as "replicate 2 x shard 3".
std::string text_of(const std::vector<MeshDimension>& dimensions);

}  // namespace dtrain
