#include "worker/train/exchange/import_command.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>

#include "common/os/files.hpp"
#include "worker/train/checkpoint/audit.hpp"
#include "worker/train/checkpoint/save.hpp"
#include "worker/train/comm/self_comm.hpp"
#include "worker/train/exchange/gpt2.hpp"
#include "worker/train/exchange/safetensors.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

constexpr std::size_t kPiece = 4u << 20;  // bytes read at a time
constexpr std::size_t kConfigLimit = 1u << 20, kIndexLimit = 16u << 20;
constexpr std::size_t kMostFiles = 4096;
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kHead = "lm_head.weight";

struct Found {
  const SafetensorsFile* file;
  const SafeTensor* tensor;
};

// The tensors of a folder by name, without the leading "transformer.".
struct Folder {
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  std::map<std::string, Found> tensors;
};

std::string plain_name(const std::string& name) {
  const std::string_view prefix = kGpt2Prefix;
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// Masks that older versions of transformers saved with the parameters.
bool is_buffer(const std::string& name) {
  return name.starts_with("h.") &&
         (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

// tensor -> file, as the index says.
Result<std::map<std::string, std::string>> read_index(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, kIndexLimit));
  STOKER_TRY(index, parse_json(text, path, {kIndexLimit, 8}));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (!index.is_object() || map == index.end() || !map->is_object())
    return fail("has no weight_map", path);
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos || !name.ends_with(".safetensors"))
      return fail(fmt::format("tensor {} is in no file of this folder", tensor), path);
    files[tensor] = name;
  }
  return files;
}

Status add_file(Folder& folder, const std::string& path) {
  STOKER_TRY(file, SafetensorsFile::open(path));
  folder.files.push_back(std::make_unique<SafetensorsFile>(std::move(file)));
  const SafetensorsFile& kept = *folder.files.back();
  for (const SafeTensor& tensor : kept.tensors()) {
    const std::string name = plain_name(tensor.name);
    if (is_buffer(name)) continue;
    if (!folder.tensors.emplace(name, Found{&kept, &tensor}).second)
      return fail(fmt::format("tensor {} is there twice", tensor.name), path);
  }
  return ok();
}

Result<Folder> open_folder(const std::string& path) {
  Folder folder;
  const std::string index = path + "/" + kIndex;
  if (!os::exists(index)) {
    const std::string file = path + "/model.safetensors";
    if (!os::exists(file))
      return fail("has no model.safetensors", path,
                  "save the model with transformers: model.save_pretrained(DIR)");
    STOKER_TRY_STATUS(add_file(folder, file));
    return folder;
  }
  STOKER_TRY(map, read_index(index));
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  if (names.size() > kMostFiles) return fail("too many files", index);
  for (const std::string& name : names) STOKER_TRY_STATUS(add_file(folder, path + "/" + name));
  for (const auto& [tensor, file] : map) {
    const auto found = folder.tensors.find(plain_name(tensor));
    if (!is_buffer(plain_name(tensor)) &&
        (found == folder.tensors.end() || found->second.file->path() != path + "/" + file))
      return fail(fmt::format("tensor {} is not in {}", tensor, file), index);
  }
  return folder;
}

std::string shape_text(const wire::Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

float from_half(std::uint16_t half) {
  const std::uint32_t bits = half, sign = bits >> 15 << 31;
  const std::uint32_t exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | fraction << 13);
  const auto number = static_cast<float>(exponent == 0 ? fraction : fraction + 1024);
  const float magnitude = std::ldexp(number, exponent == 0 ? -24 : static_cast<int>(exponent) - 25);
  return sign != 0 ? -magnitude : magnitude;
}

// Numbers of a file as f32, or f64 as they are.
void widen(const std::string& dtype, const std::vector<char>& from, std::vector<char>& to) {
  if (dtype == "F32" || dtype == "F64") {
    to = from;
    return;
  }
  to.resize(2 * from.size());
  for (std::size_t i = 0; i < from.size() / 2; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from.data() + 2 * i, sizeof bits);
    const float value =
        dtype == "F16" ? from_half(bits) : std::bit_cast<float>(std::uint32_t{bits} << 16);
    std::memcpy(to.data() + 4 * i, &value, sizeof value);
  }
}

class Importer {
 public:
  Importer(const ImportOptions& options, Folder folder, const recipe::ModelConfig& model)
      : options_(options),
        folder_(std::move(folder)),
        layout_{model, Mesh{1, 1, 1}, {0}},
        whole_(layout_.whole()),
        tensors_(gpt2_tensors(whole_, model.heads)) {}

  Status check() {
    for (const Gpt2Tensor& tensor : tensors_) {
      const auto found = folder_.tensors.find(tensor.name);
      if (found == folder_.tensors.end())
        return fail(fmt::format("tensor {} is missing", tensor.name), options_.folder);
      STOKER_TRY_STATUS(check_one(*found->second.tensor, tensor.shape, found->second.file->path()));
    }
    for (const auto& [name, found] : folder_.tensors) {
      const bool known = std::any_of(tensors_.begin(), tensors_.end(),
                                     [&n = name](const auto& t) { return t.name == n; });
      if (!known && name != kHead)
        return fail(fmt::format("tensor {} is unknown to the model", name), found.file->path());
    }
    return check_head();
  }

  Result<FlatState> load() {
    STOKER_TRY(state, FlatState::allocate(whole_, f64_ ? recipe::Dtype::F64 : recipe::Dtype::F32));
    const std::size_t each = size_of(state.element());
    for (const Gpt2Tensor& tensor : tensors_) {
      char* ours = static_cast<char*>(state.part(StatePart::Parameter).data) +
                   tensor.parameter->offset * each;
      STOKER_TRY_STATUS(load_one(tensor, ours, each));
    }
    state.refresh_parameters();
    return std::move(state);
  }

  [[nodiscard]] const ModelLayout& layout() const { return layout_; }

 private:
  Status check_one(const SafeTensor& tensor, const wire::Shape& shape, const std::string& path) {
    if (tensor.shape != shape)
      return fail(fmt::format("tensor {} is {}, config.json makes it {}", tensor.name,
                              shape_text(tensor.shape), shape_text(shape)),
                  path);
    const std::set<std::string> known{"F64", "F32", "F16", "BF16"};
    if (!known.contains(tensor.dtype))
      return fail(fmt::format("tensor {} has dtype {}", tensor.name, tensor.dtype), path,
                  "F32, F16, BF16 and F64 are read");
    const bool f64 = tensor.dtype == "F64";
    if (checked_++ > 0 && f64 != f64_)
      return fail(fmt::format("tensor {} is {}, others are not", tensor.name, tensor.dtype), path,
                  "save the whole model in one type");
    f64_ = f64;
    return ok();
  }

  // A head of its own is another model; a copy of the embedding is accepted.
  Status check_head() const {
    const auto head = folder_.tensors.find(kHead);
    if (head == folder_.tensors.end()) return ok();
    const Found word = folder_.tensors.at("wte.weight");
    const Found other = head->second;
    const std::uint64_t size = word.tensor->end - word.tensor->begin;
    bool same =
        word.tensor->dtype == other.tensor->dtype && word.tensor->shape == other.tensor->shape;
    std::vector<char> a, b;
    for (std::uint64_t at = 0; same && at < size; at += kPiece) {
      a.resize(std::min<std::uint64_t>(kPiece, size - at));
      b.resize(a.size());
      STOKER_TRY_STATUS(word.file->read(*word.tensor, at, a.size(), a.data()));
      STOKER_TRY_STATUS(other.file->read(*other.tensor, at, b.size(), b.data()));
      same = a == b;
    }
    if (same) return ok();
    return fail("lm_head.weight is not wte.weight: stoker-train ties them", other.file->path());
  }

  Status load_one(const Gpt2Tensor& tensor, char* ours, std::size_t each) const {
    const Found found = folder_.tensors.at(tensor.name);
    const std::size_t stored = safetensors_size(found.tensor->dtype);
    std::vector<char> piece, wide;
    for (std::uint64_t first = 0; first < tensor.parameter->count;) {
      const std::uint64_t count =
          std::min<std::uint64_t>(kPiece / stored, tensor.parameter->count - first);
      piece.resize(count * stored);
      STOKER_TRY_STATUS(
          found.file->read(*found.tensor, first * stored, piece.size(), piece.data()));
      widen(found.tensor->dtype, piece, wide);
      put_theirs(tensor, first, count, wide.data(), ours, each);
      first += count;
    }
    return ok();
  }

  const ImportOptions& options_;
  Folder folder_;
  ModelLayout layout_;
  ParameterTable whole_;
  std::vector<Gpt2Tensor> tensors_;
  bool f64_ = false;
  std::size_t checked_ = 0;
};

Result<recipe::ModelConfig> read_config(const std::string& path) {
  STOKER_TRY(text, os::read_file(path, kConfigLimit));
  STOKER_TRY(config, parse_json(text, path, {kConfigLimit, 16}));
  return read_gpt2_config(config, path);
}

int failed(ExitCode code, const Error& error) {
  complain(error);
  return static_cast<int>(code);
}

int save(const ImportOptions& o, const FlatState& state, const ModelLayout& layout) {
  SaveRequest request;
  request.directory = o.checkpoints;
  request.manifest.run = "imported";
  request.manifest.build = "stoker " STOKER_VERSION;
  request.manifest.mesh = {{"tp", 1}, {"pp", 1}, {"dp", 1}};
  request.manifest.training = imported_facts(layout.model, o.folder);
  request.attempt = Attempt(1);
  request.deadline = 1min;
  request.layout = layout;
  SelfComm alone;
  auto begun = PendingSave::begin(alone, state, request, nullptr);
  if (!begun) return failed(ExitCode::Failed, begun.error());
  const auto report = (*begun)->finish(alone);
  if (!report) return failed(ExitCode::Failed, report.error());
  if (!report->saved)
    return failed(report->disk_full ? ExitCode::DiskFull : ExitCode::Failed, {report->why, "", ""});
  const auto& m = layout.model;
  say(fmt::format("{}: {} parameters. In TRAIN.yaml:", report->path, layout.whole().scalars()));
  say(
      fmt::format("model: {{layers: {}, hidden: {}, heads: {}, ffn: {}, sequence: {}, vocabulary: "
                  "{}, dropout: {}}}",
                  m.layers, m.hidden, m.heads, m.ffn, m.sequence, m.vocabulary, m.dropout));
  return 0;
}

}  // namespace

int run_import(const ImportOptions& o) {
  const auto model = read_config(o.folder + "/config.json");
  if (!model) return failed(ExitCode::Configuration, model.error());
  auto folder = open_folder(o.folder);
  if (!folder) return failed(ExitCode::Configuration, folder.error());
  Importer importer(o, std::move(*folder), *model);
  if (Status good = importer.check(); !good) return failed(ExitCode::Configuration, good.error());
  const auto state = importer.load();
  if (!state) return failed(ExitCode::Configuration, state.error());
  return save(o, *state, importer.layout());
}

}  // namespace stoker::train
