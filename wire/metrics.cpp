// Both forms by hand: no kept library of Debian writes both.
#include "wire/metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <optional>

namespace stoker::wire {
namespace {

using Value = std::optional<double>;
using Run = const StatusDocument&;

constexpr std::array kStates{"idle",     "queued",     "starting", "training", "suspect",
                             "stopping", "recovering", "held",     "finished", "stopped"};

class Families {
 public:
  explicit Families(MetricsForm form) : form_(form) {}
  // A counter's name ends in _total.
  void begin(std::string name, std::string_view type, std::string_view help) {
    std::string family = name;
    if (form_ == MetricsForm::OpenMetrics && type == "counter")
      family.resize(family.size() - std::string_view("_total").size());
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family, help, family, type);
    name_ = std::move(name);
  }
  void sample(const std::string& labels, double value) {
    text_ += fmt::format("{}{} {}\n", name_, labels, value);
  }
  std::string finish() {
    if (form_ == MetricsForm::OpenMetrics) text_ += "# EOF\n";
    return std::move(text_);
  }

 private:
  MetricsForm form_;
  std::string name_, text_;
};

std::string labels(std::initializer_list<std::pair<const char*, std::string_view>> pairs) {
  std::string out;
  for (const auto& [name, value] : pairs)
    out += fmt::format("{}{}=\"{}\"", out.empty() ? "" : ",", name, escape_label(value));
  return "{" + out + "}";
}

template <class Get>
void each_run(Families& out, const MetricsInput& in, const char* name, const char* help, Get get,
              const char* type = "gauge") {
  out.begin(name, type, help);
  for (const StatusDocument& run : in.runs)
    if (const Value value = get(run)) out.sample(labels({{"run", run.run}}), *value);
}

Value positive(double value) {
  return value > 0 ? Value(value) : std::nullopt;
}

void daemon_families(Families& out, const MetricsInput& in) {
  const DaemonHealth& health = in.health;
  out.begin("stoker_up", "gauge", "1 if the daemon runs and can write its journal, else 0.");
  out.sample("", in.up && health.journal_trouble.empty() ? 1 : 0);
  out.begin("stoker_build_info", "gauge", "Version of the daemon.");
  out.sample(labels({{"version", health.build}}), 1);
  if (const auto at = parse_rfc3339(health.published)) {
    out.begin("stoker_published_timestamp_seconds", "gauge", "When these numbers were collected.");
    out.sample("", to_seconds(at->time_since_epoch()));
  }
  out.begin("stoker_uptime_seconds", "gauge", "Time since the daemon started.");
  out.sample("", health.uptime_s);
  out.begin("stoker_journal_rows_total", "counter", "Rows of the journal.");
  out.sample("", static_cast<double>(health.journal_rows));
  out.begin("stoker_effects_waiting", "gauge", "Effects without a result so far.");
  out.sample("", static_cast<double>(health.effects_waiting));
  out.begin("stoker_scheduler_blind", "gauge", "1 while the scheduler gives no usable answers.");
  out.sample("", health.scheduler_trouble.empty() ? 0 : 1);
  out.begin("stoker_nodes", "gauge", "Known nodes by state.");
  std::map<std::string, int> nodes{{"ok", 0}, {"suspect", 0}, {"excluded", 0}, {"down", 0}};
  for (const PublishedNode& node : in.nodes) ++nodes[node.state];
  for (const auto& [state, count] : nodes) out.sample(labels({{"state", state}}), count);
  out.begin("stoker_node_excluded", "gauge", "1 for each node that is not ok, with its state.");
  for (const PublishedNode& node : in.nodes)
    if (node.state != "ok") out.sample(labels({{"node", node.node}, {"state", node.state}}), 1);
  out.begin("stoker_site_alerts", "gauge", "Open alerts that belong to no run.");
  out.sample("", static_cast<double>(in.alerts.size()));
}

void sink_families(Families& out, const MetricsInput& in) {
  const auto each = [&](const char* name, const char* help, auto get) {
    out.begin(name, "gauge", help);
    for (const FailingSink& sink : in.failing)
      out.sample(labels({{"run", sink.run}, {"sink", sink.sink}, {"kind", sink.kind}}), get(sink));
  };
  each("stoker_alert_sink_failures", "Failed deliveries in a row; only failing sinks are listed.",
       [](const FailingSink& sink) { return static_cast<double>(sink.failures); });
  each("stoker_alert_sink_lost", "Alerts that a failing sink refused or gave up.",
       [](const FailingSink& sink) { return static_cast<double>(sink.lost.size()); });
  out.begin("stoker_alert_sinks_failing", "gauge", "Alert sinks that do not deliver.");
  out.sample("", static_cast<double>(in.failing.size()));
}

void state_families(Families& out, const MetricsInput& in) {
  out.begin("stoker_run_state", "gauge", "1 for the state of the run, 0 for all others.");
  for (const StatusDocument& run : in.runs)
    for (const char* state : kStates)
      out.sample(labels({{"run", run.run}, {"state", state}}), run.state == state ? 1 : 0);
  out.begin("stoker_run_condition", "gauge", "1 for each condition of the run.");
  for (const StatusDocument& run : in.runs)
    for (const std::string& condition : run.conditions)
      out.sample(labels({{"run", run.run}, {"condition", condition}}), 1);
  out.begin("stoker_run_alerts", "gauge", "Open alerts of the run by severity.");
  for (const StatusDocument& run : in.runs) {
    std::map<std::string, int> open{{"critical", 0}, {"warning", 0}, {"info", 0}};
    for (const StatusAlert& alert : run.alerts) ++open[alert.severity];
    for (const auto& [severity, count] : open)
      out.sample(labels({{"run", run.run}, {"severity", severity}}), count);
  }
  each_run(
      out, in, "stoker_run_restarts_total", "Restarts since the run began.",
      [](Run r) { return Value(r.restarts); }, "counter");
  each_run(out, in, "stoker_run_restarts_left", "Restarts that the budget still allows.",
           [](Run r) { return Value(r.budget.restarts_left); });
  each_run(out, in, "stoker_run_restarts_budget", "Restarts that the budget allows in all.",
           [](Run r) { return Value(r.budget.restarts_total); });
  each_run(out, in, "stoker_run_nodes", "Nodes of the running job.",
           [](Run r) { return Value(static_cast<double>(r.nodes.size())); });
}

void progress_families(Families& out, const MetricsInput& in) {
  each_run(out, in, "stoker_run_iteration", "Completed optimizer steps.",
           [](Run r) { return Value(static_cast<double>(r.iteration)); });
  each_run(out, in, "stoker_run_iterations_planned", "Optimizer steps of the whole run.",
           [](Run r) { return positive(static_cast<double>(r.total)); });
  each_run(out, in, "stoker_run_consumed_samples", "Samples that the training has consumed.",
           [](Run r) { return positive(static_cast<double>(r.consumed_samples)); });
  each_run(out, in, "stoker_run_loss", "Last training loss.", [](Run r) { return r.loss; });
  each_run(out, in, "stoker_run_learning_rate", "Learning rate.",
           [](Run r) { return positive(r.learning_rate); });
  each_run(out, in, "stoker_run_tflops", "TFLOP/s of each GPU, as the training reports it.",
           [](Run r) { return positive(r.tflops); });
  each_run(out, in, "stoker_run_step_seconds", "Duration of the last iteration.",
           [](Run r) { return positive(r.step_s); });
  each_run(out, in, "stoker_run_step_usual_seconds", "Usual (median) duration of an iteration.",
           [](Run r) { return positive(r.step_norm_s); });
  each_run(out, in, "stoker_run_samples_per_second", "Samples of an iteration by its usual time.",
           [](Run r) {
             const bool known = r.iteration > 0 && r.consumed_samples > 0 && r.step_norm_s > 0;
             return known ? positive(static_cast<double>(r.consumed_samples) /
                                     static_cast<double>(r.iteration) / r.step_norm_s)
                          : std::nullopt;
           });
  each_run(out, in, "stoker_run_progress_age_seconds", "Age of the oldest rank's last progress.",
           [](Run r) { return Value(r.progress_age_s); });
  each_run(out, in, "stoker_run_progress_limit_seconds", "Age at which progress counts as a hang.",
           [](Run r) { return positive(r.deadline_s); });
  each_run(out, in, "stoker_run_checkpoint_age_seconds", "Age of the newest checkpoint.",
           [](Run r) { return r.checkpoint ? Value(r.checkpoint->age_s) : std::nullopt; });
  each_run(
      out, in, "stoker_run_checkpoint_iteration", "Iteration of the newest checkpoint.", [](Run r) {
        return r.checkpoint ? Value(static_cast<double>(r.checkpoint->iteration)) : std::nullopt;
      });
  each_run(out, in, "stoker_run_eta_seconds", "Expected time until the run is finished.",
           [](Run r) { return r.eta_s; });
  each_run(out, in, "stoker_run_eta_low_seconds", "Lower end of the expected time.",
           [](Run r) { return r.forecast ? Value(r.forecast->low_s) : std::nullopt; });
  each_run(out, in, "stoker_run_eta_high_seconds", "Upper end of the expected time.",
           [](Run r) { return r.forecast ? Value(r.forecast->high_s) : std::nullopt; });
}

void goodput_families(Families& out, const MetricsInput& in) {
  each_run(out, in, "stoker_run_goodput_ratio", "Share of the time in iterations that were kept.",
           [](Run r) { return r.goodput ? Value(r.goodput->ettr) : std::nullopt; });
  each_run(out, in, "stoker_run_mfu_ratio", "Model FLOPs utilisation of the usual iteration.",
           [](Run r) { return r.goodput ? r.goodput->mfu : std::nullopt; });
  out.begin("stoker_run_time_seconds_total", "counter", "Time of the run by its use.");
  for (const StatusDocument& run : in.runs)
    if (run.goodput)
      for (const auto& [use, seconds] : run.goodput->spent_s)
        out.sample(labels({{"run", run.run}, {"use", use}}), seconds);
  const auto causes = [&](const char* name, const char* type, const char* help, auto get) {
    out.begin(name, type, help);
    for (const StatusDocument& run : in.runs)
      if (run.goodput)
        for (const StatusCost& cost : run.goodput->causes)
          out.sample(labels({{"run", run.run}, {"cause", cost.cause}}), get(cost));
  };
  causes("stoker_run_lost_seconds_total", "counter", "Lost time by cause.",
         [](const StatusCost& cost) { return cost.s; });
  causes("stoker_run_lost_node_seconds_total", "counter", "Lost time of nodes by cause.",
         [](const StatusCost& cost) { return cost.node_hours * 3600; });
  causes("stoker_run_lost_gpu_seconds_total", "counter", "Lost time of GPUs by cause.",
         [](const StatusCost& cost) { return cost.gpu_hours * 3600; });
  causes("stoker_run_incidents_total", "counter", "Incidents by cause.",
         [](const StatusCost& cost) { return static_cast<double>(cost.times); });
  each_run(
      out, in, "stoker_run_gpu_seconds_total", "Time of the GPUs of the run's allocations.",
      [](Run r) { return r.spend ? Value(r.spend->gpu_hours * 3600) : std::nullopt; }, "counter");
  each_run(out, in, "stoker_run_gpu_budget_seconds", "Time of GPUs that the run may use.",
           [](Run r) {
             return r.spend && r.spend->budget ? Value(*r.spend->budget * 3600) : std::nullopt;
           });
  each_run(out, in, "stoker_run_gpu_left_seconds", "Time of GPUs that the forecast still expects.",
           [](Run r) {
             return r.spend && r.spend->left_gpu_hours ? Value(*r.spend->left_gpu_hours * 3600)
                                                       : std::nullopt;
           });
  each_run(
      out, in, "stoker_run_energy_joules_total", "Energy of the allocation, measured or modelled.",
      [](Run r) {
        return r.goodput && r.goodput->energy ? Value(r.goodput->energy->kwh * 3.6e6)
                                              : std::nullopt;
      },
      "counter");
  each_run(out, in, "stoker_run_spare_nodes", "Nodes that are neither needed nor excluded.",
           [](Run r) { return r.spares ? Value(r.spares->free) : std::nullopt; });
}

void follower_families(Families& out, const MetricsInput& in) {
  const auto each = [&](const char* name, const char* type, const char* help, auto add) {
    out.begin(name, type, help);
    for (const StatusDocument& run : in.runs)
      for (const StatusFollower& f : run.followers) add(run.run, f);
  };
  const auto gauge = [&](const char* name, const char* help, auto get) {
    each(name, "gauge", help, [&](const std::string& run, const StatusFollower& f) {
      if (const Value value = get(f))
        out.sample(labels({{"run", run}, {"follower", f.name}}), *value);
    });
  };
  const auto by = [&](const char* label, std::string_view value, const std::string& run,
                      const StatusFollower& f, auto count) {
    out.sample(labels({{"run", run}, {"follower", f.name}, {label, value}}),
               static_cast<double>(count));
  };
  each("stoker_run_follower_results_total", "counter",
       "Checkpoints that a command of after: was done with, by result.",
       [&](const std::string& run, const StatusFollower& f) {
         by("result", "done", run, f, f.good);
         by("result", "given_up", run, f, f.given_up);
         by("result", "left_out", run, f, f.skipped);
       });
  each("stoker_run_follower_checkpoints", "gauge", "Checkpoints that it is not done with by state.",
       [&](const std::string& run, const StatusFollower& f) {
         const auto running = std::count_if(f.jobs.begin(), f.jobs.end(),
                                            [](const auto& job) { return job.state == "running"; });
         by("state", "running", run, f, running);
         by("state", "submitted", run, f, static_cast<std::ptrdiff_t>(f.jobs.size()) - running);
         by("state", "waiting", run, f, f.waiting.size());
       });
  gauge("stoker_run_follower_job_since_timestamp_seconds",
        "When the oldest job that is under way was submitted.", [](const StatusFollower& f) {
          Value oldest;
          for (const StatusFollowed& job : f.jobs)
            if (const auto at = parse_rfc3339(job.since)) {
              const double since = to_seconds(at->time_since_epoch());
              oldest = std::min(oldest.value_or(since), since);
            }
          return oldest;
        });
  gauge("stoker_run_follower_behind_iterations",
        "Iterations from the oldest checkpoint that it is not done with to the newest one.",
        [](const StatusFollower& f) { return Value(static_cast<double>(f.behind)); });
  gauge("stoker_run_follower_last_iteration", "Iteration of the checkpoint it was done with last.",
        [](const StatusFollower& f) {
          return f.last ? Value(static_cast<double>(f.last->iteration)) : std::nullopt;
        });
  gauge(
      "stoker_run_follower_last_failed", "1 if it was given up on that checkpoint, else 0.",
      [](const StatusFollower& f) { return f.last ? Value(f.last->good ? 0 : 1) : std::nullopt; });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// "type/subtype;version=1.0.0;q=0.8" -> the type and its q.
std::pair<std::string, double> media_range(std::string_view entry) {
  const auto semicolon = entry.find(';');
  std::pair<std::string, double> range{trimmed(entry.substr(0, semicolon)), 1.0};
  while (semicolon != std::string_view::npos && !entry.empty()) {
    const auto next = entry.find(';');
    const std::string_view part = trimmed(entry.substr(0, next));
    if (part.starts_with("q=")) {
      const std::string_view number = part.substr(2);
      if (std::from_chars(number.data(), number.data() + number.size(), range.second).ec !=
          std::errc())
        range.second = 0;
    }
    if (next == std::string_view::npos) break;
    entry.remove_prefix(next + 1);
  }
  return range;
}

}  // namespace

MetricsForm metrics_form(std::string_view accept) {
  double open = 0, text = 0;
  while (!accept.empty()) {
    const auto comma = accept.find(',');
    const auto [type, quality] = media_range(accept.substr(0, comma));
    if (type == "application/openmetrics-text") open = std::max(open, quality);
    if (type == "text/plain" || type == "text/*" || type == "*/*") text = std::max(text, quality);
    if (comma == std::string_view::npos) break;
    accept.remove_prefix(comma + 1);
  }
  return open > 0 && open >= text ? MetricsForm::OpenMetrics : MetricsForm::Text;
}

const char* content_type_of(MetricsForm form) {
  return form == MetricsForm::OpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string escape_label(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string metrics_text(const MetricsInput& input, MetricsForm form) {
  Families out(form);
  daemon_families(out, input);
  sink_families(out, input);
  state_families(out, input);
  progress_families(out, input);
  goodput_families(out, input);
  follower_families(out, input);
  return out.finish();
}

}  // namespace stoker::wire
