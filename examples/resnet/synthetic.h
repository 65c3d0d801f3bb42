#pragma once
// Pictures made up on the spot: what a benchmark needs, and a network can learn. Needs no torch.
#include <cstdint>
#include <span>

namespace resnet {

// Draw picture `index` of class `label` into 3 x side x side bytes (red, then green, then blue; row by row): 4 x 4
// coloured squares that are the class's own, half covered by noise that is the picture's own.
void draw_picture(std::int64_t index, std::int64_t label, std::int64_t side, std::span<std::uint8_t> pixels);

}  // namespace resnet
