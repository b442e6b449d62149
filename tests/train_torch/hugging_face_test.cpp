// A model that transformers made and saved (hugging_face/make.py), imported: its logits, its loss,
// its greedy tokens; exported again, its bytes.
#include <cmath>
#include <doctest/doctest.h>
#include <map>

#include "common/json.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/train/exchange/checkpoint_parameters.hpp"
#include "worker/train/exchange/export_command.hpp"
#include "worker/train/exchange/import_command.hpp"
#include "worker/train/exchange/safetensors.hpp"
#include "worker/train/torch/gpt.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

const std::string kFixture = STOKER_SOURCE_DIR "/tests/train_torch/hugging_face";

// name -> bytes of a file's tensors.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  const auto file = SafetensorsFile::open(path).value();
  std::map<std::string, std::string> all;
  for (const SafeTensor& tensor : file.tensors()) {
    std::string& bytes = all[tensor.name];
    bytes.resize(tensor.end - tensor.begin);
    REQUIRE(file.read(tensor, 0, bytes.size(), bytes.data()));
  }
  return all;
}

}  // namespace

TEST_CASE("a model of transformers: the same logits, loss and greedy tokens; back to the bit") {
  const stoker::testing::Folder folder;
  REQUIRE(run_import({kFixture, folder / "in"}) == 0);
  const std::string checkpoint = folder / "in/step-000000.g000000";
  const auto from = CheckpointParameters::open(checkpoint).value();
  auto state = from.load(recipe::Dtype::F32).value();
  const auto text = os::read_file(kFixture + "/expected.json").value();
  const auto expected = parse_json(text, "expected").value();
  const auto tokens = expected["tokens"].get<std::vector<std::int64_t>>();
  const auto logits = expected["logits"].get<std::vector<std::vector<double>>>();
  const Predictor predict = make_predictor(from.model(), state);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto mine = predict(std::span(tokens).first(i + 1)).value();
    REQUIRE(mine.size() == logits[i].size());
    for (std::size_t j = 0; j < mine.size(); ++j) CHECK(std::abs(mine[j] - logits[i][j]) < 1e-4);
  }

  const auto greedy = expected["greedy"].get<std::vector<std::int64_t>>();
  std::vector<std::int64_t> written(greedy.begin(), greedy.begin() + 4);
  while (written.size() < greedy.size())
    written.push_back(draw_token(predict(written).value(), {0, 0, 0}, 0).token);
  CHECK(written == greedy);

  double sum = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto mine = predict(std::span(tokens).first(i + 1)).value();
    double exponentials = 0;
    for (const double logit : mine) exponentials += std::exp(logit);
    sum += std::log(exponentials) - mine[static_cast<std::size_t>(tokens[i + 1])];
  }
  CHECK(std::abs(sum / static_cast<double>(tokens.size() - 1) - expected["loss"].get<double>()) <
        1e-5);

  REQUIRE(run_export({checkpoint, folder / "out", {}, kHuggingFaceShard}) == 0);
  CHECK(tensors_of(folder / "out/model.safetensors") ==
        tensors_of(kFixture + "/model.safetensors"));
}
