#include "worker/train/exchange/export_command.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/random.hpp"
#include "worker/train/checkpoint/direct_writer.hpp"
#include "worker/train/data/tokenizer.hpp"
#include "worker/train/exchange/checkpoint_parameters.hpp"
#include "worker/train/exchange/gpt2.hpp"
#include "worker/train/exchange/safetensors.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

namespace fs = std::filesystem;

struct Shard {
  std::string file;
  std::vector<std::size_t> tensors;  // places in the list
  std::uint64_t bytes = 0;
};

// In the model's order; a new file where the next tensor would make it too large.
std::vector<Shard> cut(const std::vector<Gpt2Tensor>& tensors, std::size_t each,
                       std::uint64_t most) {
  std::vector<Shard> shards(1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t bytes = tensors[i].parameter->count * each;
    if (!shards.back().tensors.empty() && shards.back().bytes + bytes > most) shards.emplace_back();
    shards.back().tensors.push_back(i);
    shards.back().bytes += bytes;
  }
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i].file = shards.size() == 1
                         ? "model.safetensors"
                         : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
  return shards;
}

class Exporter {
 public:
  Exporter(const CheckpointParameters& from, const os::OwnFolder& folder)
      : from_(from),
        folder_(folder),
        tensors_(gpt2_tensors(from.whole(), from.model().heads)),
        each_(size_of(from.element())) {
    std::uint64_t largest = 0;  // reserved at once: growing would hold an old and a new one
    for (const Parameter& p : from.whole().parameters) largest = std::max(largest, p.count);
    buffer_.reserve(largest * each_);
  }

  Status write_model(std::uint64_t shard_size) {
    const std::vector<Shard> shards = cut(tensors_, each_, shard_size);
    Json map = Json::object();
    std::uint64_t total = 0;
    for (const Shard& shard : shards) {
      STOKER_TRY_STATUS(write_shard(shard));
      for (const std::size_t i : shard.tensors) map[name_of_tensor(i)] = shard.file;
      total += shard.bytes;
    }
    if (shards.size() == 1) return ok();
    return put("model.safetensors.index.json",
               Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}});
  }

  Status write_config(const std::optional<int>& end) const {
    const bool f64 = from_.element() == Element::F64;
    STOKER_TRY_STATUS(put("config.json", gpt2_config(from_.model(), f64, end)));
    if (!end) return ok();
    return put("generation_config.json", Json{{"bos_token_id", *end}, {"eos_token_id", *end}});
  }

  // GPT-2's files; bytes are its alphabet without merges.
  Status write_tokenizer(const Tokenizer& tokenizer) const {
    Json vocabulary = Json::object();
    for (TokenId id = 0; id < tokenizer.end_of_document(); ++id)
      vocabulary.emplace(printable_symbols(tokenizer.text_of(id)), id);
    const std::string end = tokenizer.text_of(tokenizer.end_of_document());
    vocabulary[end] = tokenizer.end_of_document();
    STOKER_TRY_STATUS(put("vocab.json", vocabulary));
    STOKER_TRY_STATUS(folder_.put("merges.txt", tokenizer.merges_text()));
    return put("tokenizer_config.json", Json{{"tokenizer_class", "GPT2Tokenizer"},
                                             {"add_prefix_space", false},
                                             {"bos_token", end},
                                             {"eos_token", end},
                                             {"unk_token", end},
                                             {"model_max_length", from_.model().sequence}});
  }

 private:
  [[nodiscard]] std::string name_of_tensor(std::size_t i) const {
    return kGpt2Prefix + tensors_[i].name;
  }

  Status put(const std::string& name, const Json& document) const {
    return folder_.put(name, document.dump(2) + "\n");
  }

  Status write_shard(const Shard& shard) {
    std::vector<SafeTensor> entries;
    for (const std::size_t i : shard.tensors)
      entries.push_back({name_of_tensor(i), each_ == 8 ? "F64" : "F32", tensors_[i].shape});
    const std::string start = safetensors_start(entries);
    STOKER_TRY(out, DirectWriter::create(folder_, shard.file, start.size() + shard.bytes));
    STOKER_TRY_STATUS(out->write(start.data(), start.size()));
    for (const std::size_t i : shard.tensors) {
      buffer_.resize(tensors_[i].parameter->count * each_);
      STOKER_TRY_STATUS(from_.read(
          *tensors_[i].parameter, [&](std::uint64_t first, std::uint64_t count, const char* bytes) {
            put_ours(tensors_[i], first, count, bytes, buffer_.data(), each_);
          }));
      STOKER_TRY_STATUS(out->write(buffer_.data(), buffer_.size()));
    }
    return out->finish();
  }

  const CheckpointParameters& from_;
  const os::OwnFolder& folder_;
  std::vector<Gpt2Tensor> tensors_;
  std::size_t each_;
  std::vector<char> buffer_;
};

Status write_folder(const CheckpointParameters& from, const ExportOptions& o,
                    const os::OwnFolder& folder, bool& tokenizer_written) {
  STOKER_TRY(names, folder.names());
  if (!names.empty())  // another user gave this name to another folder of ours
    return fail("is not the empty folder that was made", folder.path());
  const std::string prefix = from.tokenizer(o.tokenizer);
  std::unique_ptr<Tokenizer> tokenizer;
  if (!prefix.empty()) {
    STOKER_TRY(loaded, load_tokenizer(prefix));
    tokenizer = std::move(loaded);
    if (tokenizer->vocabulary() > from.model().vocabulary)
      return fail(fmt::format("has {} tokens, the model {}", tokenizer->vocabulary(),
                              from.model().vocabulary),
                  prefix, "give the tokenizer of this training with --tokenizer");
  }
  Exporter exporter(from, folder);
  STOKER_TRY_STATUS(exporter.write_model(o.shard_size));
  STOKER_TRY_STATUS(exporter.write_config(
      tokenizer ? std::optional<int>(tokenizer->end_of_document()) : std::nullopt));
  tokenizer_written = tokenizer != nullptr;
  if (tokenizer) STOKER_TRY_STATUS(exporter.write_tokenizer(*tokenizer));
  return folder.sync();
}

bool is_export_file(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{
      "config.json",           "vocab.json",       "generation_config.json", "merges.txt",
      "tokenizer_config.json", "model.safetensors"};
  if (name.ends_with(".new")) name.remove_suffix(4);  // what folder.put() was writing
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         name == "model.safetensors.index.json" ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

// Writes a folder beside `output`, then gives it that name. Others may be able to write the folder
// around it: everything goes by what was opened, and what they exchanged stays as it is.
Status write_export(const CheckpointParameters& from, const ExportOptions& o,
                    const std::string& output, bool& tokenizer_written) {
  const fs::path aside = fmt::format("{}.partial.{}", output, os::random_hex(16));
  const std::string around = aside.has_parent_path() ? aside.parent_path().string() : ".";
  STOKER_TRY_STATUS(os::make_directories(around));
  if (::mkdir(aside.c_str(), 0755) != 0)
    return fail(errno_error(errno, "cannot create", aside.string()));
  const auto folder = os::OwnFolder::open(aside);
  if (!folder) return fail(folder.error());
  Status done = write_folder(from, o, *folder, tokenizer_written);
  if (done && !folder->is_at_path())
    done = fail("another user has put something else in its place", aside,
                "export into a folder that only you can write");
  if (done) {
    ::rmdir(output.c_str());
    if (::rename(aside.c_str(), output.c_str()) == 0) return ok();
    done = fail(errno_error(errno, "cannot rename the finished export into place", output));
  }
  if (const auto names = folder->names())
    for (const std::string& name : *names)
      if (is_export_file(name)) (void)folder->remove(name);
  ::rmdir(aside.c_str());
  return done;
}

int failed(ExitCode code, const Error& error) {
  complain(error);
  return static_cast<int>(code);
}

}  // namespace

int run_export(const ExportOptions& o) {
  std::error_code ignored;
  if (os::exists(o.output) && !fs::is_empty(o.output, ignored))
    return failed(ExitCode::Configuration,
                  {"exists and is not an empty folder", o.output, "choose another -o"});
  const auto from = CheckpointParameters::open(o.checkpoint);
  if (!from) return failed(ExitCode::CheckpointRefused, from.error());
  std::string output = o.output;
  while (output.size() > 1 && output.back() == '/') output.pop_back();
  bool tokenizer = false;
  if (const Status done = write_export(*from, o, output, tokenizer); !done)
    return failed(is_disk_full(done.error()) ? ExitCode::DiskFull : ExitCode::Configuration,
                  done.error());
  say(fmt::format("{}: {} tensors, {} parameters of iteration {}{}", output,
                  from->whole().parameters.size(), from->whole().scalars(),
                  from->manifest().iteration.value,
                  tokenizer ? ", with its tokenizer" : ", without a tokenizer"));
  return 0;
}

}  // namespace stoker::train
