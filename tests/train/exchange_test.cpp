// Models to and from Hugging Face's form, without LibTorch: where every element goes, there and
// back to the bit, from any mesh; what is refused, in one line each.
#include <cstring>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <thread>
#include <unistd.h>

#include "common/hash.hpp"
#include "common/os/files.hpp"
#include "tests/folder.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/save.hpp"
#include "worker/train/comm/fake_comm.hpp"
#include "worker/train/exchange/checkpoint_parameters.hpp"
#include "worker/train/exchange/export_command.hpp"
#include "worker/train/exchange/import_command.hpp"
#include "worker/train/exchange/safetensors.hpp"

using namespace stoker;
using namespace stoker::train;
using stoker::testing::Folder;

namespace {

recipe::ModelConfig small_model() {
  recipe::ModelConfig m;
  m.layers = 4, m.hidden = 16, m.heads = 4, m.ffn = 20, m.sequence = 5, m.vocabulary = 300;
  return m;
}

float value_of(const std::string& name, std::uint64_t i) {
  return static_cast<float>(xxh3_64(fmt::format("{} {}", name, i)) % 1000003);
}

// A checkpoint of that mesh, every element of which is value_of(its name, its place).
std::string save_on(const Mesh& mesh, const std::string& directory) {
  ModelLayout layout{small_model(), mesh, {}};
  for (std::uint32_t stage = 0; stage < mesh.pp; ++stage) layout.rank_of_stage.push_back(stage);
  SaveRequest request;
  request.directory = directory;
  request.manifest.iteration = Iteration(7);
  request.manifest.training = imported_facts(layout.model, "test");
  request.attempt = Attempt(1);
  request.deadline = 60s;
  request.layout = layout;
  FakeHub hub(mesh);
  std::vector<std::thread> ranks;
  for (std::uint32_t r = 0; r < mesh.world(); ++r)
    ranks.emplace_back([&, r] {
      FakeComm comm(hub, r);
      auto state = FlatState::allocate(layout.of_rank(r), recipe::Dtype::F32).value();
      for (const Parameter& p : state.table().parameters) {
        auto* values = static_cast<float*>(state.part(StatePart::Parameter).data) + p.offset;
        wire::for_each_run(p.shape, p.box, 0, p.count, [&](const wire::Run& run) {
          for (std::uint64_t i = 0; i < run.count; ++i)
            values[run.in_a + i] = value_of(p.name, run.in_tensor + i);
        });
      }
      auto save = PendingSave::begin(comm, state, request, nullptr);
      REQUIRE(save);
      REQUIRE((*save)->finish(comm)->saved);
    });
  for (auto& rank : ranks) rank.join();
  return directory + "/step-000007.g000000";
}

std::vector<float> tensor_in(const SafetensorsFile& file, const std::string& name,
                             const wire::Shape& shape) {
  for (const SafeTensor& tensor : file.tensors()) {
    if (tensor.name != name) continue;
    CHECK(tensor.shape == shape);
    CHECK(tensor.dtype == "F32");
    std::vector<float> values((tensor.end - tensor.begin) / sizeof(float));
    REQUIRE(
        file.read(tensor, 0, tensor.end - tensor.begin, reinterpret_cast<char*>(values.data())));
    return values;
  }
  FAIL("no tensor ", name);
  return {};
}

// What a verb printed on stderr, and its exit status.
template <class F>
std::pair<int, std::string> complaint_of(const Folder& folder, F verb) {
  const std::string path = folder / "stderr";
  const int saved = ::dup(2);
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  ::dup2(file, 2);
  const int code = verb();
  ::dup2(saved, 2);
  ::close(saved);
  ::close(file);
  return {code, os::read_file(path).value()};
}

std::string safetensors_of(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  std::string bytes(sizeof size, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + header + std::string(data, '\1');
}

}  // namespace

TEST_CASE(
    "export: TP2 x PP2 -> every element where GPT-2 has it, in one line of files or in many") {
  const Folder folder;
  const std::string checkpoint = save_on(Mesh{2, 2, 1}, folder / "c");
  REQUIRE(run_export({checkpoint, folder / "hf", {}, kHuggingFaceShard}) == 0);
  const auto file = SafetensorsFile::open(folder / "hf/model.safetensors").value();
  CHECK(file.tensors().size() == 4 + 4 * kPerBlock);
  const auto word = tensor_in(file, "transformer.wte.weight", {300, 16});
  for (std::size_t i = 0; i < word.size(); ++i) REQUIRE(word[i] == value_of("embedding.word", i));
  const auto qkv = tensor_in(file, "transformer.h.2.attn.c_attn.weight", {16, 48});
  const auto bias = tensor_in(file, "transformer.h.2.attn.c_attn.bias", {48});
  for (std::size_t which = 0; which < 3; ++which)  // q, k, v
    for (std::size_t head = 0; head < 4; ++head)
      for (std::size_t d = 0; d < 4; ++d) {
        const std::size_t row = head * 12 + which * 4 + d, column = which * 16 + head * 4 + d;
        REQUIRE(bias[column] == value_of("blocks.2.attention.qkv.bias", row));
        for (std::size_t in = 0; in < 16; ++in)
          REQUIRE(qkv[in * 48 + column] ==
                  value_of("blocks.2.attention.qkv.weight", row * 16 + in));
      }
  const auto out = tensor_in(file, "transformer.h.3.mlp.c_proj.weight", {20, 16});
  for (std::size_t i = 0; i < out.size(); ++i)
    REQUIRE(out[i] == value_of("blocks.3.mlp.out.weight", i % 16 * 20 + i / 16));
  const auto config = parse_json(os::read_file(folder / "hf/config.json").value(), "c").value();
  CHECK(config["n_inner"] == 20);
  CHECK(config["eos_token_id"].is_null());

  REQUIRE(run_export({checkpoint, folder / "cut", {}, 9000}) == 0);
  CHECK_FALSE(std::filesystem::exists(folder / "cut/model.safetensors"));
  REQUIRE(run_import({folder / "cut", folder / "again"}) == 0);
  REQUIRE(run_export(
              {folder / "again/step-000000.g000000", folder / "back", {}, kHuggingFaceShard}) == 0);
  for (const char* name : {"model.safetensors", "config.json"})
    CHECK(os::read_file(folder / "back" + "/" + name).value() ==
          os::read_file(folder / "hf" + "/" + name).value());
}

TEST_CASE("import: the same folder twice is one checkpoint; another never replaces it") {
  const Folder folder;
  const std::string checkpoint = save_on(Mesh{1, 1, 1}, folder / "c");
  REQUIRE(run_export({checkpoint, folder / "hf", {}, kHuggingFaceShard}) == 0);
  CHECK(run_import({folder / "hf", folder / "in"}) == 0);
  CHECK(run_import({folder / "hf", folder / "in"}) == 0);
  std::string bytes = os::read_file(folder / "hf/model.safetensors").value();
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  folder.write("hf/model.safetensors", bytes);
  const auto [code, said] = complaint_of(folder, [&] {
    return run_import({folder / "hf", folder / "in"});
  });
  CHECK(code == 1);
  CHECK(said.find("is never replaced") != std::string::npos);
  // What was exported is there, and stays.
  CHECK(complaint_of(folder, [&] {
          return run_export({checkpoint, folder / "hf", {}, kHuggingFaceShard});
        }).second.find("is not an empty folder") != std::string::npos);
}

TEST_CASE("export: a damaged checkpoint -> 21, and nothing is left") {
  const Folder folder;
  const std::string checkpoint = save_on(Mesh{1, 1, 1}, folder / "c");
  const std::string shard = checkpoint + "/shard-00000-of-00001.bin";
  std::string bytes = os::read_file(shard).value();
  bytes[500] = static_cast<char>(bytes[500] ^ 1);
  REQUIRE(os::replace_file(shard, bytes, os::Durability::Cached));
  const auto [code, said] = complaint_of(folder, [&] {
    return run_export({checkpoint, folder / "hf", {}, kHuggingFaceShard});
  });
  CHECK(code == 21);
  CHECK(said.find("the content has changed") != std::string::npos);
  CHECK_FALSE(os::exists(folder / "hf"));
}

TEST_CASE("checkpoint: a manifest that says four billion layers -> refused before any table") {
  const Folder folder;
  const std::string path = save_on({1, 1, 1}, folder / "in");
  const std::string manifest = path + "/manifest.json";
  std::string text = os::read_file(manifest).value();
  const auto at = text.find("layers 4 ");
  REQUIRE(at != std::string::npos);
  text.replace(at, 9, "layers 4294967296 ");
  REQUIRE(os::replace_file(manifest, text, os::Durability::Cached));
  const auto opened = CheckpointParameters::open(path);
  REQUIRE_FALSE(opened);
  CHECK_MESSAGE(opened.error().message().find("4294967296 layers") != std::string::npos,
                opened.error().message());
}

TEST_CASE("import: what is no such model -> 22 in one line, and nothing is left") {
  const Folder folder;
  REQUIRE(run_export(
              {save_on(Mesh{1, 1, 1}, folder / "c"), folder / "hf", {}, kHuggingFaceShard}) == 0);
  const std::string good = os::read_file(folder / "hf/model.safetensors").value();
  const std::string config = os::read_file(folder / "hf/config.json").value();
  const auto with = [](std::string text, const std::string& old, const std::string& now) {
    const auto at = text.find(old);
    REQUIRE(at != std::string::npos);
    return text.replace(at, old.size(), now);
  };
  const std::string name = "transformer.h.1.ln_1.bias";
  struct Bad {
    std::string config, model, says;
  };
  const std::vector<Bad> cases{
      {with(config, "\"gpt2\"", "\"llama\""), good,
       "another architecture: model_type is \"llama\""},
      {with(config, "gelu_new", "relu"), good, "activation_function is \"relu\""},
      {with(config, "\"n_head\": 4", "\"n_head\": 5"), good,
       "n_embd 16 is not a multiple of n_head 5"},
      {with(config, "\"n_layer\": 4", "\"n_layer\": 5"), good, "tensor h.4.ln_1.weight is missing"},
      {with(config, "\"n_layer\": 4", "\"n_layer\": 3"), good,
       "tensor h.3.attn.c_attn.bias is unknown"},
      {with(config, "\"n_layer\": 4", "\"n_layer\": -4"), good,
       "n_layer must be a number from 1 to"},
      {with(config, "\"n_inner\": 20", "\"n_inner\": 24"), good, "config.json makes it [16, 24]"},
      {"[1]", good, "not a JSON object"},
      {std::string(100, '['), good, "nested deeper than"},
      {config, good.substr(0, good.size() - 1), "truncated"},
      {config, good + "x", "bytes that are no tensor"},
      {config, good.substr(0, 100), "truncated, or no safetensors"},
      {config, "1234", "too short for a safetensors file"},
      {config, with(good, name, "transformer.h.1.ln_1.boss"), "tensor h.1.ln_1.bias is missing"},
      {config, with(good, "\"F32\"", "\"I32\""), "has dtype I32"},
      {config, with(good, "\"F32\"", "\"F3X\""), "unknown dtype \"F3X\""}};
  for (const Bad& bad : cases) {
    CAPTURE(bad.says);
    std::filesystem::create_directory(folder / "bad");
    folder.write("bad/config.json", bad.config);
    folder.write("bad/model.safetensors", bad.model);
    const auto complaint = complaint_of(folder, [&] {
      return run_import({folder / "bad", folder / "in"});
    });
    const std::string& said = complaint.second;
    CHECK(complaint.first == 22);
    CHECK_MESSAGE(said.find(bad.says) != std::string::npos, said);
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
    CHECK_FALSE(os::exists(folder / "in"));
  }
}

TEST_CASE("safetensors: holes, overlaps, lengths that lie, headers too large or too deep") {
  const Folder folder;
  const auto opened = [&](const std::string& header, std::size_t data) {
    const auto file = SafetensorsFile::open(folder.write("t", safetensors_of(header, data)));
    return file ? std::string("good") : file.error().what;
  };
  const std::string a = R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  CHECK(opened("{" + a + "}", 8) == "good");
  CHECK(opened("{" + a + R"(,"__metadata__":{"format":"pt"}})", 8) == "good");
  CHECK(opened("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8) ==
        "tensor b overlaps the one before it");
  CHECK(opened("{" + a + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})", 16) ==
        "4 bytes before tensor b belong to no tensor");
  CHECK(opened(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8) ==
        "tensor a: 8 bytes are not those of its shape");
  CHECK(opened(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8) ==
        "tensor a: it ends before it begins");
  CHECK(opened(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8) ==
        "tensor a: no shape");
  CHECK(opened(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})",
               8) == "tensor a: 8 bytes are not those of its shape");
  CHECK(opened("{}", 0) == "holds no tensor");
  CHECK(opened("{" + a, 8).find("not valid JSON") == 0);
  CHECK(opened(R"({"a":)" + std::string(100, '['), 8) == "JSON nested deeper than 8");
  std::string long_header = "{" + a + "}";
  long_header.resize(kLargestSafetensorsHeader + 1, ' ');
  CHECK(opened(long_header, 8).find("the limit is 16777216") != std::string::npos);
}
