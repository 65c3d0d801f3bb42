// See settings.h.
#include "examples/digits/settings.h"

#include <CLI/CLI.hpp>

namespace digits {

Settings parse_settings(int argc, char** argv) {
  Settings settings;
  settings.data = DTRAIN_DIGITS_DEFAULT;
  CLI::App app("Train a small convolutional network on handwritten digits, on any number of ranks.", "train");
  app.add_option("--data", settings.data, "The digits, as scikit-learn ships them")
      ->envname("DTRAIN_DIGITS")
      ->capture_default_str();
  app.add_option("--lr", settings.lr, "Learning rate")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--epochs", settings.epochs, "Passes over the data")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--batch-size", settings.batch_size, "Samples per update, over all ranks")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--seed", settings.seed, "Seed of the first weights and of the order")->capture_default_str();
  app.add_flag("--double", settings.in_double, "Compute in double precision");
  app.add_option("--loss-csv", settings.loss_csv, "Write the loss of every step to this file (plot_loss.py draws it)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  return settings;
}

}  // namespace digits
