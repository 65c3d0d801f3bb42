// Fuzzes `dtrain ckpt`: files of a checkpoint, which may be anything. There is one line that refuses them, or a text
// that harms no terminal and JSON that can be read.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "cli/ckpt/ckpt_text.h"
#include "launcher/evidence/report_lines.h"
#include "test/fuzz/one_line.h"

using namespace dtrain;
using namespace dtrain::cli;

namespace {

void check_texts(const Ckpt& ckpt) {
  for (const std::string& text : {ckpt_text(ckpt), ckpt_verdict(ckpt)})
    for (const std::string& line : launcher::lines_of(text))
      DT_CHECK(!has_control_bytes(line), "what is printed harms no terminal");
  DT_CHECK(nlohmann::json::accept(ckpt_json(ckpt)), "programs can read it");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  Ckpt ckpt;
  ckpt.path = "run";
  ckpt.files.push_back({"model.safetensors", "run/model.safetensors", size + 8, {}, {}, {}});
  auto length = ckpt_header_length(text.substr(0, 8), size);
  if (!length) check_one_line(length.error().message);
  if (length) DT_CHECK(*length + 8 <= size, "a header lies in its file");
  auto tensors = read_ckpt_header(text, size + 8);
  if (tensors)
    ckpt.files[0].tensors = std::move(*tensors);
  else
    ckpt.files[0].damage = tensors.error().message;
  auto manifest = read_ckpt_manifest(text);
  if (manifest)
    ckpt.manifest = std::move(*manifest);
  else
    check_one_line(manifest.error().message);
  auto names = read_ckpt_index(text);
  if (!names) check_one_line(names.error().message);
  check_texts(ckpt);
  return 0;
}
