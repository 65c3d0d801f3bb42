// See include/dtrain/mesh.h.
#include "dtrain/mesh.h"

#include "strategies/session/session_state.h"

namespace dtrain {
namespace {

MeshLayout agreed(const Session::State& session, const std::vector<MeshDimension>& dimensions) {
  agree(session, "Mesh(" + text_of(dimensions) + ")");
  return {dimensions, session.groups->env.world_size};
}

}  // namespace

Mesh::Mesh(Session& session, const std::vector<MeshDimension>& dimensions)
    : layout_(agreed(*session.state_, dimensions)) {
  for (const MeshDimension& one : dimensions)
    groups_.push_back(session.state_->groups->form(layout_.line(one.name, session.rank()), {one.name}));
}

}  // namespace dtrain
