#include "worker/train/exchange/generate_command.hpp"

#include <cmath>
#include <fmt/format.h>

#include "worker/train/data/tokenizer.hpp"
#include "worker/train/exchange/checkpoint_parameters.hpp"
#include "worker/train/run/exit_code.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

int failed(ExitCode code, const Error& error) {
  complain(error);
  return static_cast<int>(code);
}

Result<std::unique_ptr<Tokenizer>> tokenizer_of(const CheckpointParameters& from,
                                                const GenerateOptions& o) {
  const std::string prefix = from.tokenizer(o.tokenizer);
  if (prefix.empty())
    return fail("the training's tokenizer was not found", o.checkpoint,
                "give it: --tokenizer PREFIX, where PREFIX.tokenizer.json is");
  STOKER_TRY(tokenizer, load_tokenizer(prefix));
  if (tokenizer->vocabulary() > from.model().vocabulary)
    return fail(fmt::format("has {} tokens, the model {}", tokenizer->vocabulary(),
                            from.model().vocabulary),
                prefix, "give the tokenizer of this training");
  return std::move(tokenizer);
}

struct Written {
  std::vector<TokenId> prompt, tokens;
  std::vector<double> log_probabilities;
};

Result<Written> write(const Predictor& predict, const GenerateOptions& o, Tokenizer& tokenizer,
                      std::uint64_t sequence) {
  Written written;
  tokenizer.encode(o.prompt, written.prompt);
  if (written.prompt.empty()) written.prompt.push_back(tokenizer.end_of_document());
  std::vector<std::int64_t> all(written.prompt.begin(), written.prompt.end());
  for (std::uint64_t i = 0; i < o.tokens; ++i) {
    const std::size_t seen = std::min<std::size_t>(all.size(), sequence);
    STOKER_TRY(logits, predict(std::span(all).last(seen)));
    for (const double logit : logits)
      if (!std::isfinite(logit)) return fail("a logit is not finite: the model is broken", "model");
    const Drawn drawn = draw_token(logits, o.rule, i);
    written.tokens.push_back(drawn.token);
    written.log_probabilities.push_back(drawn.log_probability);
    if (drawn.token == tokenizer.end_of_document()) break;
    all.push_back(drawn.token);
  }
  return written;
}

std::string text_of(const Written& written, const Tokenizer& tokenizer) {
  std::vector<TokenId> shown = written.tokens;
  if (!shown.empty() && shown.back() == tokenizer.end_of_document()) shown.pop_back();
  return tokenizer.decode(shown);
}

}  // namespace

int run_generate(const GenerateOptions& o, const MakePredictor& make) {
  if (!(o.rule.temperature >= 0) || !std::isfinite(o.rule.temperature))
    return failed(ExitCode::Configuration, {"must be at least 0", "--temperature", ""});
  const auto from = CheckpointParameters::open(o.checkpoint);
  if (!from) return failed(ExitCode::CheckpointRefused, from.error());
  const auto tokenizer = tokenizer_of(*from, o);
  if (!tokenizer) return failed(ExitCode::Configuration, tokenizer.error());
  auto state = from->load(from->dtype());
  if (!state) return failed(ExitCode::CheckpointRefused, state.error());
  const auto written = write(make(from->model(), *state), o, **tokenizer, from->model().sequence);
  if (!written) return failed(ExitCode::Failed, written.error());
  const std::string text = text_of(*written, **tokenizer);
  if (o.json)
    say_json(Json{{"prompt", o.prompt},
                  {"prompt_tokens", written->prompt},
                  {"tokens", written->tokens},
                  {"log_probabilities", written->log_probabilities},
                  {"text", text}});
  else
    say(o.prompt + text);
  return 0;
}

}  // namespace stoker::train
