// See settings.h.
#include "examples/gpt/settings.h"

#include <CLI/CLI.hpp>
#include <iostream>

namespace gpt {

Settings parse_settings(int argc, char** argv) {
  Settings settings;
  settings.data = DTRAIN_CORPUS_DEFAULT;
  CLI::App app("Train a small GPT on the characters of a text, on any number of ranks and under any strategy.", "gpt");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  const auto count = CLI::Range(std::int64_t{1}, std::int64_t{1} << 40);
  app.add_option("--data", settings.data, "A text file")->capture_default_str();
  app.add_option("--steps", settings.steps, "Updates, with those before a checkpoint")
      ->check(count)
      ->capture_default_str();
  app.add_option("--global-batch", settings.global_batch, "Stretches of text per update, over all ranks")
      ->check(count)
      ->capture_default_str();
  app.add_option("--micro-batches", settings.micro_batches,
                 "Forwards and backwards of each rank per update; gradients are reduced in the last one")
      ->check(count)
      ->capture_default_str();
  app.add_option("--context", settings.context, "Characters of a stretch")->check(count)->capture_default_str();
  app.add_option("--width", settings.width, "Numbers for each character")->check(count)->capture_default_str();
  app.add_option("--depth", settings.depth, "Blocks")->check(count)->capture_default_str();
  app.add_option("--heads", settings.heads, "Heads of attention")->check(count)->capture_default_str();
  app.add_option("--dtype", settings.dtype, "Type of the parameters")
      ->check(CLI::IsMember({"float32", "float64", "bfloat16"}))
      ->capture_default_str();
  app.add_option("--optimizer", settings.optimizer, "adamw or muon")
      ->check(CLI::IsMember({"adamw", "muon"}))
      ->capture_default_str();
  app.add_option("--lr", settings.lr, "Learning rate")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", settings.seed, "Seed of the first weights and of the order")->capture_default_str();
  app.add_flag("--recompute", settings.recompute,
               "Run each block again in backward: less memory, and a forward more for each step");
  app.add_option("--loss-file", settings.loss_file,
                 "Write a line for each step: its number, its seconds, the loss of the global batch");
  app.add_option("--save", settings.save, "Folder of checkpoints");
  app.add_option("--save-every", settings.save_every, "Steps between checkpoints")->check(count)->capture_default_str();
  app.add_flag("--resume", settings.resume,
               "Go on from the newest checkpoint in the folder of --save, if there is one");
  app.add_option("--generate", settings.generate, "Characters to write at the end; 0: none")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
    for (const char* flag : {"--global-batch", "--micro-batches", "--optimizer", "--lr", "--steps"}) {
      if (app.count(flag) > 0) settings.typed.emplace_back(flag);
    }
    if (settings.width % settings.heads != 0) throw CLI::ValidationError("--heads", "must divide --width");
    if (settings.resume && settings.save.empty()) throw CLI::RequiredError("--resume needs --save, which");
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return settings;
}

}  // namespace gpt
