// stoker save RUN [--at-iteration N]: a checkpoint, and the training goes on. Whether a training
// under agents can save is known to them alone: the command waits for their answer.
#include <memory>
#include <thread>

#include "cli/acting.hpp"
#include "cli/commands/all.hpp"
#include "cli/read/event_file.hpp"
#include "cli/read/published.hpp"

namespace stoker::cli {
namespace {

std::uint64_t newest_event(const std::string& run_directory) {
  auto file = EventFile::open(run_directory);
  if (!file) return 0;
  const auto events = file->newest(1, [](const wire::PublishedEvent&) { return true; });
  return events && !events->empty() ? events->front().seq : 0;
}

// The number of the request in what the daemon did; nothing: no agents are asked.
std::optional<std::uint64_t> request_of(const wire::Response& agreed) {
  if (!agreed.data.is_object()) return std::nullopt;
  const Json actions = agreed.data.value("actions", Json());
  for (const Json& action : actions.is_array() ? actions : Json::array()) {
    if (!action.is_object() || action.value("kind", Json()) != "write_control") continue;
    const Json control = action.value("control", Json());
    const Json number = control.is_object() ? control.value("save", Json()) : Json();
    if (number.is_number_unsigned()) return number.get<std::uint64_t>();
  }
  return std::nullopt;
}

bool answers(const wire::PublishedEvent& event, std::uint64_t after, std::uint64_t request) {
  if (event.seq <= after) return false;
  const Json said = said_by_agents(event);
  if (!said.is_object() || said.value("kind", Json()) != "acknowledged") return false;
  const Json value = said.value("value", Json());
  return said.value("what", Json()) == "save" && value.is_number_unsigned() &&
         value.get<std::uint64_t>() >= request;
}

std::optional<wire::PublishedEvent> answer_to(std::uint64_t request, std::uint64_t after,
                                              const std::string& run_directory) {
  constexpr std::uint64_t kLookBack = 256u << 10;
  auto file = EventFile::open(run_directory);
  if (!file) return std::nullopt;
  const auto found = file->newest(
      1, [&](const wire::PublishedEvent& e) { return answers(e, after, request); }, kLookBack);
  if (!found || found->empty()) return std::nullopt;
  return found->front();
}

// The agents' answer in place of the daemon's, which only says that they are asked.
wire::Response await_agents(wire::Response agreed, const wire::SiteRun& run, std::uint64_t after,
                            Duration limit) {
  const auto request = request_of(agreed);
  if (!request || limit <= Duration::zero()) return agreed;
  for (const Instant end = monotonic_now() + limit; monotonic_now() < end;) {
    if (const auto answer = answer_to(*request, after, run.directory)) {
      const Json detail = said_by_agents(*answer).value("detail", Json());
      agreed.ok = detail.is_null() || detail == "";
      agreed.message = answer->reason;
      return agreed;
    }
    std::this_thread::sleep_for(200ms);
  }
  agreed.ok = false;
  agreed.message += "; the agents have not answered within " + format_duration(limit) +
                    ", whether it is saved is not known: stoker events " + run.run + " shows it";
  return agreed;
}

}  // namespace

Command cmd_save() {
  return {"save",
          "make a checkpoint and go on",
          {"stoker save hello", "stoker save hello --at-iteration 5000"},
          [](CLI::App& app, Context& context) -> Action {
            struct Options {
              Deed deed;
              std::optional<std::uint64_t> at_iteration;
              std::string wait = "30s";
            };
            const auto options = std::make_shared<Options>();
            add_acting_options(app, options->deed, false);
            app.add_option("--at-iteration", options->at_iteration, "when this iteration is done")
                ->type_name("N");
            app.add_option("--wait", options->wait,
                           "how long to wait for the agents' answer (default 30s; 0s: not at all)")
                ->type_name("30s");
            return [&context, options] {
              const auto limit = parse_duration(options->wait);
              if (!limit) return context.console.say("--wait: " + limit.error().message()), kUsage;
              Deed deed = options->deed;
              deed.request.verb = "save";
              if (options->at_iteration)
                deed.request.arguments["at-iteration"] = std::to_string(*options->at_iteration);
              else
                deed.switch_file = "save";
              const auto run = find_run(context.state, deed.request.run);
              if (run)
                deed.follow = [run = *run, limit = *limit,
                               after = newest_event(run->directory)](wire::Response agreed) {
                  return await_agents(std::move(agreed), run, after, limit);
                };
              return act(context, std::move(deed));
            };
          }};
}

}  // namespace stoker::cli
