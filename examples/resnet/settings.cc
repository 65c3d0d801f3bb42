// See settings.h.
#include "examples/resnet/settings.h"

#include <CLI/CLI.hpp>

namespace resnet {

Settings parse_settings(int argc, char** argv) {
  Settings settings;
  std::string averaging = "parallel";
  CLI::App app("Train a ResNet, on any number of processes, and say how many images a second they take.", "resnet");
  auto* synthetic = app.add_option("--synthetic", settings.synthetic, "Train on so many made-up pictures")
                        ->check(CLI::Range(1, 100'000'000))
                        ->capture_default_str();
  app.add_option("--files", settings.files, "Train on a folder in the format of CIFAR-10's binary version")
      ->excludes(synthetic);
  app.add_option("--image-size", settings.image_size, "Pixels each way; images of --files are resized")
      ->check(CLI::Range(8, 1024))
      ->capture_default_str();
  app.add_option("--depth", settings.depth, "Layers of the network")
      ->check(CLI::IsMember({18, 34, 50, 101, 152}))
      ->capture_default_str();
  app.add_option("--classes", settings.classes, "Classes of images")->check(CLI::Range(2, 1000))->capture_default_str();
  app.add_option("--batch", settings.batch, "Images per update of each process; with --strong of all together")
      ->check(CLI::Range(2, 1'000'000))
      ->capture_default_str();
  app.add_flag("--strong", settings.strong, "Share --batch out among the processes, so that it stays the same");
  app.add_option("--epochs", settings.epochs, "Passes over the data; 0: only test")
      ->check(CLI::Range(0, 10'000))
      ->capture_default_str();
  app.add_option("--lr", settings.lr, "Learning rate of Adam")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seed", settings.seed, "Seed of the first weights and of the order")->capture_default_str();
  app.add_option("--strategy", averaging, "What averages gradients: parallel, or horovod's optimizer")
      ->check(CLI::IsMember({"parallel", "horovod"}))
      ->capture_default_str();
  app.add_flag("--double", settings.in_double, "Compute in double precision");
  app.add_option("--threads", settings.threads, "Threads of each process; else OMP_NUM_THREADS, or its share of cores")
      ->check(CLI::Range(1, 1024));
  app.add_option("--init", settings.init, "Begin with the weights in this file");
  app.add_option("--save", settings.save, "Write the weights to this file at the end");
  app.add_option("--json", settings.json, "Write the results to this file (scaling.py reads it)");
  app.add_option("--loss-csv", settings.loss_csv,
                 "Write the loss of every step to this file (plot_loss.py of the digits example draws it)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }
  settings.horovod = averaging == "horovod";
  return settings;
}

}  // namespace resnet
