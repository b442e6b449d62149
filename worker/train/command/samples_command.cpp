// Text of the data is foreign: say() makes it printable, so that it cannot steer a terminal.
#include "worker/train/command/samples_command.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "common/json.hpp"
#include "common/printable.hpp"
#include "configs/schema/train_schema.hpp"
#include "recipe/sequence_plan.hpp"
#include "wire/exit_code.hpp"
#include "worker/train/data/samples_log.hpp"
#include "worker/train/data/tokenizer.hpp"
#include "worker/train/data/training_data.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

// What the log says about the iteration, else what the configuration implies.
Result<SamplesLine> find_line(const SamplesOptions& options, const recipe::TrainConfig& config,
                              bool& logged) {
  const std::string path = options.log.value_or(config.checkpoint.samples_log);
  const auto history = read_samples_log(path);
  if (history) {
    const auto found = history->lines.find(options.iteration);
    logged = found != history->lines.end();
    if (logged) return found->second;
    tell_stderr(fmt::format("samples: {} does not have iteration {}; computed from {}", path,
                            options.iteration.value, options.config));
  } else {
    tell_stderr(
        fmt::format("samples: {}; computed from {}", history.error().message(), options.config));
  }
  STOKER_TRY(plan, recipe::BatchPlan::make(config.batch));
  const std::uint64_t total = plan.train_iterations(config.train.samples);
  if (options.iteration.value == 0 || options.iteration.value > total)
    return fail(fmt::format("there is no iteration {}", options.iteration.value), options.config,
                fmt::format("this training has iterations 1 to {}", total));
  SamplesLine line;
  line.iteration = options.iteration;
  line.first = plan.consumed_after(Iteration(options.iteration.value - 1));
  line.last = plan.consumed_after(options.iteration) - 1;
  return line;
}

struct Decoders {
  std::vector<std::unique_ptr<Tokenizer>> by_source;

  static Decoders open(const recipe::DataConfig& data) {
    Decoders all;
    for (const recipe::DataSource& source : data.train) {
      auto tokenizer = load_tokenizer(source.prefix);
      if (!tokenizer)
        tell_stderr(
            fmt::format("samples: {}; ids are shown instead of text", tokenizer.error().message()));
      all.by_source.push_back(tokenizer ? *std::move(tokenizer) : nullptr);
    }
    return all;
  }
  [[nodiscard]] std::string text(const Sample& sample) const {
    if (const auto& tokenizer = by_source[sample.source]) return tokenizer->decode(sample.tokens);
    std::string ids;
    for (const TokenId id : sample.tokens) ids += fmt::format("{}{}", ids.empty() ? "" : " ", id);
    return ids;
  }
};

// A curriculum reads the beginning of a sample: so many tokens, and the one to predict after them.
void shorten(std::uint64_t tokens, Sample& sample, std::vector<SamplePiece>& pieces) {
  if (sample.tokens.size() <= tokens) return;
  sample.tokens.resize(tokens);
  for (SamplePiece& piece : pieces) {
    piece.length = std::min(piece.length, tokens);
    tokens -= piece.length;
  }
  std::erase_if(pieces, [](const SamplePiece& piece) { return piece.length == 0; });
}

void print_sample(std::uint64_t id, const std::string& prefix,
                  const std::vector<SamplePiece>& pieces, const std::string& text) {
  std::string where;
  for (const SamplePiece& p : pieces)
    where +=
        fmt::format(", document {} tokens {}-{}", p.document, p.offset, p.offset + p.length - 1);
  say(fmt::format("--- sample {}: {}{}\n{}", id, prefix, where, text));
}

Json sample_json(std::uint64_t id, const Sample& sample, const std::string& prefix,
                 const std::vector<SamplePiece>& pieces, const std::string& text) {
  Json json{{"id", id}, {"source", sample.source}, {"prefix", prefix}, {"text", text}};
  json["documents"] = Json::array();
  for (const SamplePiece& p : pieces)
    json["documents"].push_back(
        {{"document", p.document}, {"offset", p.offset}, {"length", p.length}});
  return json;
}

Status print_all(const SamplesOptions& options, const recipe::TrainConfig& config,
                 const TrainingData& data, const SamplesLine& line, bool logged) {
  const Decoders decoders = Decoders::open(config.data);
  const std::uint64_t sequence = recipe::sequence_at(config, line.iteration);
  Json document{{"iteration", line.iteration.value},
                {"first", line.first},
                {"last", line.last},
                {"logged", logged},
                {"sequence", sequence},
                {"samples", Json::array()}};
  if (!options.json) {
    std::string sources;
    STOKER_TRY(counts, data.source_counts(line.first, line.last));
    for (const auto& [source, count] : counts)
      sources += fmt::format("; {}: {}", config.data.train[source].prefix, count);
    if (config.train.curriculum) sources += fmt::format("; {} tokens of each", sequence);
    say(fmt::format("iteration {}: samples {}-{}{}", line.iteration.value, line.first, line.last,
                    sources));
  }
  for (std::uint64_t id = line.first; id <= line.last; ++id) {
    STOKER_TRY(sample, data.sample(id));
    const std::string& prefix = config.data.train[sample.source].prefix;
    STOKER_TRY(within, data.index_within(id, sample.source));
    STOKER_TRY(pieces, data.source(sample.source).pieces(within));
    shorten(sequence + 1, sample, pieces);
    const std::string text = decoders.text(sample);
    if (options.json)
      document["samples"].push_back(sample_json(id, sample, prefix, pieces, text));
    else
      print_sample(id, prefix, pieces, text);
  }
  if (options.json) say_json(document);
  return ok();
}

}  // namespace

Result<int> run_samples(const SamplesOptions& options) {
  STOKER_TRY(file, configs::load_train_config(options.config));
  if (!file.errors.empty()) {
    for (const configs::Diagnostic& d : file.errors) tell_stderr(d.text());
    return wire::number_of(wire::ExitCode::Configuration);
  }
  const recipe::TrainConfig& config = file.config;
  bool logged = false;
  STOKER_TRY(line, find_line(options, config, logged));
  DataRequest request;
  request.data = config.data;
  request.sequence = config.model.sequence;
  request.vocabulary = config.model.vocabulary;
  request.samples = config.train.samples;
  STOKER_TRY(data, TrainingData::open(request));
  if (line.first > line.last || line.last >= data.samples())
    return fail(fmt::format("samples {}-{} are not in this training of {}", line.first, line.last,
                            data.samples()),
                options.config, "was the samples log made with another TRAIN.yaml?");
  STOKER_TRY_STATUS(print_all(options, config, data, line, logged));
  return 0;
}

}  // namespace stoker::train
