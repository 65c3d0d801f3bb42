// A program for `dtrain predict`. Its arguments are NOTES, a file that gets the first id of each row group that it
// begins with, and then what happens to some of them:
//
//   once ID FILE   the process is killed on the row group of this id, if there is no FILE; then there is one
//   pause ID FIFO  it writes a byte into FIFO on each row group whose id is a multiple of ID, and waits
//   throw ID       predict() throws
//   name           it asks for a tensor that is not there
//   twice          a column is asked for twice
//   text           the result is a text, a list and a copied column instead
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <stdexcept>

#include "dtrain/predict.h"

namespace {

using Words = std::vector<std::string>;

void note(const std::string& file, std::int64_t id) {
  const std::string line = std::to_string(id) + "\n";
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (::write(fd, line.data(), line.size()) < 0) throw std::runtime_error("no notes");
  ::close(fd);
}

void befall(const Words& words, std::int64_t id) {
  const std::string what = words.size() > 1 ? words[1] : "";
  const std::int64_t at = words.size() > 2 ? std::stoll(words[2]) : 0;
  if (what == "throw" && id == at) throw std::invalid_argument("no such class");
  if (what == "once" && id == at && ::access(words[3].c_str(), F_OK) != 0) {
    std::ofstream(words[3]).flush();
    ::raise(SIGKILL);
  }
  if (what == "pause" && id % at == 0 && ::access(words[3].c_str(), F_OK) == 0) {
    const int fifo = ::open(words[3].c_str(), O_WRONLY);
    if (::write(fifo, "x", 1) == 1) ::pause();
  }
}

// The sum of the letters of each row's tags.
torch::Tensor tag_letters(const dtrain::InputRows& rows) {
  const torch::Tensor sums = at::cat({at::zeros({1}, at::kLong), rows.at("tags").to(at::kLong).cumsum(0)});
  return sums.index_select(0, rows.at("tags.offsets").index_select(0, rows.at("tags.rows"))).diff();
}

dtrain::ResultColumns texts_of(const dtrain::InputRows& rows) {
  const torch::Tensor id = rows.at("id");
  Words texts;
  for (std::int64_t row = 0; row < rows.rows; ++row) texts.push_back("row " + std::to_string(id[row].item<int64_t>()));
  return {{"text", texts},
          {"pair", rows.at("pair").to(at::kFloat)},
          {"odd", id.remainder(2).to(at::kBool)},
          {"letters", rows.at("name.offsets").diff()},
          {"tags", rows.at("tags.rows").diff()},
          {"tag_letters", tag_letters(rows)}};
}

dtrain::Predictor make(const Words& words) {
  dtrain::Predictor predictor;
  const bool texts = words.size() > 1 && words[1] == "text";
  predictor.columns = {"id"};
  if (words.size() > 1 && words[1] == "twice") predictor.columns.push_back("id");
  if (texts) {
    predictor.columns.insert(predictor.columns.end(), {"tags", "name"});
    predictor.matrices = {{"pair", {"a", "b"}}};
    predictor.copied = {"when"};
  } else {
    predictor.copied = {"id"};
  }
  predictor.predict = [words, texts](const dtrain::InputRows& rows) -> dtrain::ResultColumns {
    const torch::Tensor& id = rows.at("id");
    note(words.at(0), id[0].item<std::int64_t>());
    befall(words, id[0].item<std::int64_t>());
    if (texts) return texts_of(rows);
    if (words.size() > 1 && words[1] == "name") return {{"twice", rows.at("name")}};
    return {{"twice", id * 2}};
  };
  return predictor;
}

}  // namespace

int main(int argc, char** argv) { return dtrain::predict_main(argc, argv, make); }
