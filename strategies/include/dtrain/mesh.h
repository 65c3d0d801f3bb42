#pragma once
// Mesh: all ranks of a session, arranged in one or more dimensions. For each dimension there is a group: the ranks that
// lie on one line with this rank. Hybrid sharding, for example, has the shards of a model along one dimension and
// copies of the model along the other:
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
  // Collective of the session, with the same dimensions on all ranks. Each group has the name of its dimension. Throws
  // ConfigError on every rank if the dimensions differ between ranks, or if MeshLayout refuses them. No group forms
  // then. Other errors are those of init().
  Mesh(Session& session, const std::vector<MeshDimension>& dimensions);

  const MeshLayout& layout() const { return layout_; }
  // These take the name of a dimension. They throw ConfigError if there is no such dimension.
  int size(const std::string& name) const { return layout_.size(name); }
  // The coordinate of this rank. It is also the rank's number in the group of that dimension.
  int coordinate(const std::string& name) const { return group(name).rank(); }
  // The group of the ranks that lie on one line with this rank along the dimension.
  const Group& group(const std::string& name) const { return groups_[layout_.axis(name)]; }

 private:
  MeshLayout layout_;
  std::vector<Group> groups_;
};

}  // namespace dtrain
