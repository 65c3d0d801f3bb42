// KeptState: the values of a state go into a slot of the memory side by side, in the order of the pieces.
#include "dtrain/kept_state.h"

#include <ATen/Parallel.h>

#include <cstring>
#include <sstream>

#include "strategies/checkpoint/pieces.h"
#include "strategies/kept/kept_memory.h"

namespace dtrain {

struct KeptState::State {
  Group world;
  WorkerEnv env;
  std::optional<kept::KeptMemory> memory{};
  std::string why_not{};
  std::string refused{};
  // Of the memory, once it was looked at.
  std::optional<kept::Identity> identity{};
  kept::Found found = kept::nothing_kept();
};

namespace kept {
namespace {

constexpr std::uint64_t kValueAlign = 64;
constexpr std::int64_t kCopyAtOnce = std::int64_t{1} << 20;  // bytes, for one thread

// Where the values of a piece lie in a slot.
struct PieceInSlot {
  const StatePiece* piece = nullptr;
  std::uint64_t at = 0, bytes = 0;
};

struct SlotLayout {
  std::vector<PieceInSlot> pieces;
  Identity identity;
};

std::uint64_t count_of(const StatePiece& piece) {
  return piece.values.defined() ? static_cast<std::uint64_t>(piece.values.numel()) : 0;
}

// FNV-1a, 64 bits: to tell lists of tensors apart.
void mix(std::uint64_t& hash, const void* data, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) hash = (hash ^ static_cast<const unsigned char*>(data)[i]) * 0x100000001b3ULL;
}

SlotLayout slot_layout(const CheckpointState& state, const WorkerEnv& env) {
  SlotLayout layout;
  std::uint64_t hash = 0xcbf29ce484222325ULL, at = 0;
  for (const auto* list : {&state.model, &state.optimizer}) {
    for (const StatePiece& piece : *list) {
      const std::uint64_t bytes = checkpoint::wanted_of(piece).count * c10::elementSize(piece.dtype);
      const std::int64_t numbers[] = {
          static_cast<std::int64_t>(piece.name.size()), static_cast<std::int64_t>(piece.dtype),
          static_cast<std::int64_t>(piece.shape.size()), piece.begin, static_cast<std::int64_t>(bytes)};
      mix(hash, numbers, sizeof numbers);
      mix(hash, piece.name.data(), piece.name.size());
      mix(hash, piece.shape.data(), piece.shape.size() * sizeof(std::int64_t));
      layout.pieces.push_back({&piece, at, bytes});
      at += (bytes + kValueAlign - 1) / kValueAlign * kValueAlign;
    }
  }
  layout.identity = {static_cast<std::uint32_t>(env.rank), static_cast<std::uint32_t>(env.world_size), hash, at};
  return layout;
}

at::Tensor tensor_at(std::byte* at, std::uint64_t count, at::ScalarType type) {
  return at::from_blob(at, {static_cast<std::int64_t>(count)}, at::TensorOptions(type));
}

// Pieces of a copy that several threads make.
struct Stretch {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

void copy_all(const std::vector<Stretch>& stretches) {
  at::parallel_for(0, static_cast<std::int64_t>(stretches.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Stretch& each = stretches[static_cast<std::size_t>(i)];
      std::memcpy(each.to, each.from, each.bytes);
    }
  });
}

void copy_values(const SlotLayout& layout, std::byte* values) {
  const at::NoGradGuard no_grad;
  std::vector<Stretch> stretches;
  for (const auto& [piece, at, bytes] : layout.pieces) {
    if (bytes == 0) continue;
    if (!piece->values.is_cpu() || !piece->values.is_contiguous()) {
      tensor_at(values + at, count_of(*piece), piece->dtype).copy_(piece->values);
      continue;
    }
    const auto* from = static_cast<const std::byte*>(piece->values.const_data_ptr());
    for (std::size_t done = 0; done < bytes; done += kCopyAtOnce)
      stretches.push_back({values + at + done, from + done, std::min<std::size_t>(kCopyAtOnce, bytes - done)});
  }
  copy_all(stretches);
}

// The elements of a whole tensor that a rank has in its slot, told to the others.
struct ToldPart {
  std::size_t index = 0;  // of the piece
  std::uint64_t begin = 0, count = 0, at = 0;
};

std::vector<StatePiece*> pieces_of(CheckpointState& state) {
  std::vector<StatePiece*> pieces;
  for (auto* list : {&state.model, &state.optimizer})
    for (StatePiece& piece : *list) pieces.push_back(&piece);
  return pieces;
}

bool is_whole(const StatePiece& piece) { return count_of(piece) == checkpoint::elements_of(piece.shape); }

std::string parts_text(const SlotLayout& layout, const std::vector<StatePiece*>& wanted) {
  std::string text = fmt::format("{}", layout.identity.value_bytes);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (is_whole(*wanted[i]))
      text += fmt::format(" {} {} {} {}", i, layout.pieces[i].piece->begin, count_of(*layout.pieces[i].piece),
                          layout.pieces[i].at);
  return text;
}

void fill(const StatePiece& wanted, const ToldPart& part, std::byte* values) {
  const auto first = static_cast<std::int64_t>(part.begin) - wanted.begin;
  wanted.values.narrow(0, first, static_cast<std::int64_t>(part.count))
      .copy_(tensor_at(values + part.at, part.count, wanted.dtype));
}

// From this rank's own slot.
void fill_own(const SlotLayout& layout, const std::vector<StatePiece*>& wanted, std::byte* values) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const PieceInSlot& own = layout.pieces[i];
    if (own.bytes == 0) continue;
    fill(*wanted[i], {i, static_cast<std::uint64_t>(own.piece->begin), count_of(*own.piece), own.at}, values);
  }
}

struct ToldParts {
  std::uint64_t value_bytes = 0;
  std::vector<ToldPart> parts;
};

ToldParts parse_parts(const std::string& text) {
  ToldParts told;
  std::istringstream words(text);
  words >> told.value_bytes;
  ToldPart part;
  while (words >> part.index >> part.begin >> part.count >> part.at) told.parts.push_back(part);
  return told;
}

// Collective. What some rank keeps only a part of comes from the slots of the others.
void fill_from_others(const Group& world, const std::vector<std::string>& texts, const std::vector<StatePiece*>& wanted,
                      std::byte* values) {
  const at::NoGradGuard no_grad;
  std::vector<ToldParts> told;
  std::vector<bool> divided(wanted.size(), false);
  for (const std::string& text : texts) {
    told.push_back(parse_parts(text));
    for (const ToldPart& part : told.back().parts)
      if (part.count < checkpoint::elements_of(wanted.at(part.index)->shape)) divided[part.index] = true;
  }
  if (std::find(divided.begin(), divided.end(), true) == divided.end()) return;
  for (int rank = 0; rank < world.size(); ++rank) {
    const ToldParts& its = told[static_cast<std::size_t>(rank)];
    if (its.value_bytes == 0) continue;
    const bool own = rank == world.rank();
    const at::Tensor bytes = own ? tensor_at(values, its.value_bytes, at::kByte)
                                 : at::empty({static_cast<std::int64_t>(its.value_bytes)}, at::kByte);
    world.broadcast(bytes, rank);
    if (own) continue;
    auto* from = static_cast<std::byte*>(bytes.mutable_data_ptr());
    for (const ToldPart& part : its.parts)
      if (divided[part.index] && part.count != 0) fill(*wanted[part.index], part, from);
  }
}

}  // namespace
}  // namespace kept

KeptState::KeptState(const Session& session) : state_(new State{session.world(), session.env()}) {
  if (state_->env.state_fd >= 0)
    state_->memory.emplace(state_->env.state_fd);
  else
    state_->why_not = "no kept state here: the workers were not started with `dtrain run --keep-state`";
}
KeptState::~KeptState() = default;
KeptState::KeptState(KeptState&&) noexcept = default;
KeptState& KeptState::operator=(KeptState&&) noexcept = default;

bool KeptState::here() const { return state_->memory.has_value(); }
const std::string& KeptState::why_not() const { return state_->why_not; }
const std::string& KeptState::refused() const { return state_->refused; }

void KeptState::keep(const CheckpointState& state) {
  if (!here()) return;
  State& self = *state_;
  const std::string failure = checkpoint::failure_of([&] {
    if (state.step < 0) throw checkpoint::Refused("the step is below 0");
    const kept::SlotLayout layout = kept::slot_layout(state, self.env);
    const std::string_view extra = self.env.rank == 0 ? std::string_view(state.extra) : std::string_view();
    if (extra.size() > kept::kExtraBytes)
      throw checkpoint::Refused(
          fmt::format("`extra` has {} bytes, and there is room for {}", extra.size(), kept::kExtraBytes));
    if (!self.identity || self.identity->fingerprint != layout.identity.fingerprint) {
      self.found = self.memory->find(layout.identity);
      if (!self.found.why_not.empty()) self.memory->lay_out(layout.identity);
      self.identity = layout.identity;
    }
    const std::size_t slot = kept::next_slot(self.found);
    self.memory->empty(slot);
    self.found.slots[slot].reset();
    kept::copy_values(layout, self.memory->values(slot));
    std::transform(extra.begin(), extra.end(), self.memory->extra(slot),
                   [](char c) { return static_cast<std::byte>(c); });
    const kept::Slot what{{static_cast<std::uint32_t>(self.env.round), state.step}, extra.size()};
    self.memory->commit(slot, what);
    self.found.slots[slot] = what;
  });
  if (!failure.empty())
    throw CheckpointError(
        fmt::format("dtrain: rank {} cannot keep the state of step {}: {}", self.env.rank, state.step, failure));
}

std::optional<Loaded> KeptState::restore(CheckpointState& state, const CheckpointState* kept, std::int64_t at_least) {
  State& self = *state_;
  const std::string what = "the kept state cannot be restored";
  kept::SlotLayout layout;
  checkpoint::Said own;
  own.failure = checkpoint::failure_of([&] {
    layout = kept::slot_layout(kept != nullptr ? *kept : state, self.env);
    self.found = here() ? self.memory->find(layout.identity) : kept::nothing_kept();
    if (!here()) self.found.why_not = self.why_not;
    own.text = kept::found_text(self.found);
  });
  std::vector<kept::Found> of_ranks;
  for (const std::string& text : checkpoint::exchange(self.world, what, own))
    of_ranks.push_back(kept::parse_found(text));
  const kept::Choice choice = kept::choose(of_ranks);
  self.refused = choice.refused;
  if (!choice.stamp || choice.stamp->step < at_least) return std::nullopt;
  self.identity = layout.identity;
  const std::size_t slot = self.found.slots[0] && self.found.slots[0]->stamp == *choice.stamp ? 0 : 1;
  const std::size_t other = 1 - slot;
  const auto wanted = kept::pieces_of(state);
  own = {};
  own.failure = checkpoint::failure_of([&] {
    kept::fill_own(layout, wanted, self.memory->values(slot));
    own.text = kept::parts_text(layout, wanted) + "\n";
    if (self.env.rank == 0)
      own.text.append(reinterpret_cast<const char*>(self.memory->extra(slot)), self.found.slots[slot]->extra_bytes);
  });
  std::vector<std::string> said = checkpoint::exchange(self.world, what, own);
  state.step = choice.stamp->step;
  state.extra = said[0].substr(said[0].find('\n') + 1);
  for (std::string& text : said) text.erase(text.find('\n'));
  kept::fill_from_others(self.world, said, wanted, self.memory->values(slot));
  // A later step, which not all ranks have, is made anew: this slot is the next one to be filled.
  if (self.found.slots[other] && self.found.slots[other]->stamp > *choice.stamp) {
    self.memory->empty(other);
    self.found.slots[other].reset();
  }
  Loaded loaded{state.step, state.extra, self.world.size(), {}};
  loaded.from_memory = true;
  return loaded;
}

}  // namespace dtrain
