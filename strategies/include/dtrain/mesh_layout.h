#pragma once
// Where each rank stands in a mesh. Pure: no torch, nobody is asked.
#include <string>
#include <vector>

#include "dtrain/worker_env.h"

namespace dtrain {

struct MeshDimension {
  std::string name;
  int size = 1;
};

// Ranks in rows, the last dimension first: of {{"replicate", 2}, {"shard", 3}} ranks 0, 1, 2 are one line along
// "shard", and 0, 3 one along "replicate". The order is that of torch's init_device_mesh.
class MeshLayout {
 public:
  // Throws ConfigError where there is no dimension, a name is empty or there twice, or the sizes do not multiply to the
  // world size.
  MeshLayout(std::vector<MeshDimension> dimensions, int world_size);

  const std::vector<MeshDimension>& dimensions() const { return dimensions_; }
  // Which dimension that is, from 0. Throws ConfigError where there is none of this name.
  std::size_t axis(const std::string& name) const;
  int size(const std::string& name) const { return dimensions_[axis(name)].size; }

  // One number for each dimension.
  std::vector<int> coordinates(int rank) const;
  // Throws ConfigError where the mesh has no such place.
  int rank_at(const std::vector<int>& coordinates) const;
  // The ranks that differ from `rank` in this coordinate alone, in order, `rank` among them.
  std::vector<int> line(const std::string& name, int rank) const;

 private:
  std::vector<MeshDimension> dimensions_;
};

// "replicate 2 x shard 3".
std::string text_of(const std::vector<MeshDimension>& dimensions);

}  // namespace dtrain
