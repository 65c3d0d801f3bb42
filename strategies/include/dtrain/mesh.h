#pragma once
// Mesh: all ranks of a session in two dimensions or more, and for each dimension the group of those that share a line
// with this rank. Hybrid sharding has a model's shards along one and copies of it along the other:
//
//   dtrain::Mesh mesh(session, {{"replicate", session.world_size() / session.local_world_size()},
//                               {"shard", session.local_world_size()}});
//   mesh.group("shard").reduce_scatter(mine, gradients);   // 0 1 2 3 | 4 5 6 7
//   mesh.group("replicate").all_reduce(mine);              // 0 4 | 1 5 | 2 6 | 3 7
#include "dtrain/mesh_layout.h"
#include "dtrain/session.h"

namespace dtrain {

class Mesh {
 public:
  // Collective of the session, with the same dimensions on all ranks. Each group is named for its dimension. Throws
  // ConfigError on every rank where they differ, or as MeshLayout, with nothing formed; and as Session::new_group.
  Mesh(Session& session, const std::vector<MeshDimension>& dimensions);

  const MeshLayout& layout() const { return layout_; }
  // By the name of a dimension; ConfigError where there is none.
  int size(const std::string& name) const { return layout_.size(name); }
  // This rank's, which is also its number in the group.
  int coordinate(const std::string& name) const { return group(name).rank(); }
  const Group& group(const std::string& name) const { return groups_[layout_.axis(name)]; }

 private:
  MeshLayout layout_;
  std::vector<Group> groups_;
};

}  // namespace dtrain
