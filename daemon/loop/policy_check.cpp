#include "daemon/loop/policy_check.hpp"

#include <re2/re2.h>
#include <utility>

#include "alerts/sink.hpp"
#include "common/os/process.hpp"
#include "configs/schema/run_schema.hpp"

namespace stoker::daemon {
namespace {

configs::RunSchemaContext schema_context(const std::string& state) {
  configs::RunSchemaContext context;
  context.state_directory = state;
  for (const alerts::SinkKind& known : alerts::known_sinks()) {
    configs::SinkKind kind{known.kind, {}, {}};
    for (const alerts::SinkOption& option : known.options)
      (option.required ? kind.required : kind.optional).push_back(option.name);
    context.sinks.push_back(std::move(kind));
  }
  context.sink_error = [](const core::SinkPolicy& sink) {
    const Status checked = alerts::check_sink(sink);
    return checked ? std::string() : checked.error().what;
  };
  return context;
}

configs::RunWorld world() {
  return {os::current_environment(), [](const std::string& expression) {
            RE2::Options quiet;
            quiet.set_log_errors(false);
            const RE2 compiled(expression, quiet);
            return compiled.ok() ? std::string() : compiled.error();
          }};
}

}  // namespace

configs::CheckedRun check_policy(std::string_view text, const std::string& file,
                                 const std::string& state) {
  auto context = schema_context(state);
  context.file = context.config_path = file;
  return configs::check_run_config(text, context, world());
}

std::string error_lines(const configs::Diagnostics& errors) {
  std::string text;
  for (const auto& error : errors) text += (text.empty() ? "" : "\n") + error.text();
  return text;
}

}  // namespace stoker::daemon
