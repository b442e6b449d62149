#include "worker/train/inspect/inspect_command.hpp"

#include <fmt/format.h>
#include <map>

#include "watch/checkpoint_scan.hpp"
#include "worker/train/run/say.hpp"

namespace stoker::train {
namespace {

Json document(const wire::Manifest& m, bool verified) {
  Json files = Json::array();
  for (const auto& file : m.files)
    files.push_back({{"name", file.name}, {"size", file.size}, {"xxh3", file.xxh3}});
  return Json{{"iteration", m.iteration.value},
              {"generation", m.generation.value},
              {"run", m.run},
              {"consumed_samples", m.consumed_samples},
              {"consumed_tokens", m.consumed_tokens},
              {"learning_rate", m.learning_rate},
              {"digest", m.digest},
              {"parameters", m.parameters},
              {"optimizer", !m.without_optimizer},
              {"files", files},
              {"mesh", m.mesh},
              {"numerics", m.numerics},
              {"saved_at", format_rfc3339(m.saved_at)},
              {"verified", verified}};
}

void print_text(const wire::Manifest& m, bool verified) {
  std::uint64_t bytes = 0;
  for (const auto& file : m.files) bytes += file.size;
  say(fmt::format("run {} generation {} iteration {}", m.run, m.generation.value,
                  m.iteration.value));
  say(fmt::format("consumed samples {} tokens {}", m.consumed_samples, m.consumed_tokens));
  say(fmt::format("learning rate {:.6E}", m.learning_rate));
  say(fmt::format("parameters {} in {} tensors, {} files, {} bytes", m.parameters, m.tensors.size(),
                  m.files.size(), bytes));
  say(fmt::format("digest {}", m.digest));
  if (m.without_optimizer)
    say("without the optimizer's state: for inference; the digest is that of the parameters");
  say(fmt::format("saved at {} in {:.2f} s", format_rfc3339(m.saved_at), m.save_seconds));
  for (const auto& [what, value] : m.numerics) say(fmt::format("{}: {}", what, value));
  say(verified ? "verified: every file is what the manifest says"
               : "sizes are right; --verify reads every byte");
}

}  // namespace

Result<int> run_inspect(const InspectOptions& options) {
  const auto depth = options.verify ? watch::Depth::Content : watch::Depth::Sizes;
  STOKER_TRY(manifest, watch::check_checkpoint(options.checkpoint, depth));
  if (options.json)
    say_json(document(manifest, options.verify));
  else
    print_text(manifest, options.verify);
  return 0;
}

}  // namespace stoker::train
