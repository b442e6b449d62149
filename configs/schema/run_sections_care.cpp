// RUN.yaml: `watch`, `hang`, `recover` and `checkpoints`, how a run is cared for.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "configs/schema/run_sections.hpp"

namespace stoker::configs {
namespace {

void make_absolute(std::vector<std::string>& paths, const std::string& folder) {
  for (std::string& path : paths)
    if (!path.empty()) path = path_from(folder, path);
}

void read_progress(const ValueReader& value, std::map<std::string, std::string>& progress) {
  std::string word = "auto";
  if (value.shape() != Shape::Map) {
    if (value.read(word) && word != "auto")
      value.error(R"(progress: expected auto or {iteration: 'step=(\d+)', loss: '…'}, got ")" +
                  word + "\"");
    return;
  }
  value.map([&](MapReader& m) {
    std::string iteration, loss;
    m.require("iteration", iteration);
    m.read("loss", loss);
    m.check("iteration", iteration.find('(') != std::string::npos,
            "the number must stand in a group: (\\d+)");
    m.check("loss", loss.empty() || loss.find('(') != std::string::npos,
            "the number must stand in a group: ([0-9.eE+-]+)");
    progress["iteration"] = iteration;
    if (!loss.empty()) progress["loss"] = loss;
  });
}

// `auto`, a duration, or nothing.
void read_interval(MapReader& m, core::CheckpointPolicy& p) {
  std::optional<std::string> word;
  m.read("interval", word);
  if (word) {
    const auto length = parse_duration(*word);
    p.interval_auto = *word == "auto";
    if (length && *length > Duration(0)) p.interval = *length;
    m.check("interval", p.interval_auto || p.interval > Duration(0),
            "expected auto or a duration like 30min, got \"" + *word + "\"");
  }
  read_positive(m, "interval_floor", p.interval_floor);
}

}  // namespace

// A key without an effect is refused, so that no one relies on it.
void read_watch(MapReader& m, core::WatchPolicy& p, const std::string& folder) {
  m.read("logs", p.logs);
  make_absolute(p.logs, folder);
  read_progress(m.at("progress"), p.progress);
  m.read("kernel_logs", p.kernel_logs);
  make_absolute(p.kernel_logs, folder);
  m.read("signatures", p.signatures);
  make_absolute(p.signatures, folder);
  m.map("disk", [&](MapReader& d) {
    d.read("paths", p.disk_paths);
    make_absolute(p.disk_paths, folder);
    d.read_share("min_free", p.disk_min_free);
    d.read_share("min_free_inodes", p.disk_min_free_inodes);
  });
  m.map("shm", [&](MapReader& s) {
    s.read_share("min_free", p.shm_min_free);
    refuse_unless(s, "min_free", !s.has("min_free"), "watching the space of /dev/shm");
  });
}

void read_hang(MapReader& m, core::HangPolicy& p) {
  read_positive(m, "floor", p.floor);
  read_positive(m, "ceiling", p.ceiling);
  m.check("ceiling", p.ceiling >= p.floor,
          fmt::format("{} is shorter than hang.floor {}", format_duration(p.ceiling),
                      format_duration(p.floor)));
  m.map("phases", [&](MapReader& x) {
    read_positive(x, "startup", p.startup);
    read_positive(x, "load", p.load);
    read_positive(x, "checkpoint", p.checkpoint);
    read_positive(x, "evaluation", p.evaluation);
    read_positive(x, "shutdown", p.shutdown);
  });
}

void read_recover(MapReader& m, core::RecoverPolicy& p) {
  m.read("in_allocation", p.in_allocation);
  m.read("on_scancel", p.on_scancel);
  m.read("preflight", p.preflight);
  m.map("restarts", [&](MapReader& r) {
    read_between(r, "total", p.restarts_total, 0, 100000);
    read_between(r, "without_progress", p.restarts_without_progress, 1, 1000);
    read_positive(r, "refill", p.refill);
  });
  m.map("exclude", [&](MapReader& e) {
    read_positive(e, "for", p.exclude_for);
    e.read_share("at_most", p.exclude_at_most);
    e.read("drain", p.exclude_drain);
  });
  m.map("rollback", [&](MapReader& r) {
    r.read("enabled", p.rollback_enabled);
    r.read("lr_scale", p.rollback_lr_scale);
    r.check("lr_scale", p.rollback_lr_scale > 0 && p.rollback_lr_scale <= 10,
            "must be above 0 and at most 10");
    read_between(r, "at_most", p.rollback_at_most, 0, 100);
  });
}

void read_checkpoints(MapReader& m, core::CheckpointPolicy& p, const std::string& folder) {
  m.read("directory", p.directory);
  m.check("directory", !p.directory.empty(), "must not be empty");
  m.read("format", p.format);
  const std::vector<std::string> known{"stoker", "megatron", "deepspeed"};  // run_checks.cpp too
  if (p.format == "pattern")
    refuse_unless(m, "format", false, "judging checkpoints of the format " + p.format);
  else
    m.check("format", std::find(known.begin(), known.end(), p.format) != known.end(),
            "expected one of stoker, megatron, deepspeed, pattern, got \"" + p.format + "\"");
  std::optional<std::string> complete_when;
  m.read("complete_when", complete_when);
  refuse_unless(m, "complete_when", !complete_when, "checkpoints by a pattern");
  m.map("keep", [&](MapReader& k) {
    k.read("last", p.keep_last);
    k.read("every", p.keep_every);
    k.read("pin", p.pin);
    const char* alone = "says what stays besides keep.last; without it nothing is deleted";
    k.check("every", p.keep_every == 0 || p.keep_last > 0, alone);
    k.check("pin", p.pin.empty() || p.keep_last > 0, alone);
  });
  m.map("archive", [&](MapReader& a) {
    a.read("to", p.archive_to);
    a.read("every", p.archive_every);
    a.read("without_optimizer", p.archive_without_optimizer);
    a.check("to", !p.archive_to.empty() || (p.archive_every == 0 && !p.archive_without_optimizer),
            "where do the copies go?");
    a.check("every", p.archive_to.empty() || p.archive_every > 0,
            "must be at least 1: multiples of it are copied");
    if (!p.archive_to.empty()) p.archive_to = path_from(folder, p.archive_to);
  });
  m.read("verify", p.verify);
  read_interval(m, p);
}

void read_goodput(MapReader& m, core::GoodputPolicy& p) {
  const auto read = [&](const char* key, double& out, double low, double high) {
    m.read(key, out);
    m.check(key, out >= low && out <= high, fmt::format("must be between {} and {}", low, high));
  };
  read("peak_tflops", p.peak_tflops, 0, 1e6);
  read("flops_per_sample", p.sample_flops, 0, 1e24);
  read("gpu_watts", p.gpu_watts, 0, 1e5);
  read("pue", p.pue, 1, 10);
  read("co2_g_per_kwh", p.co2_g_per_kwh, 0, 1e5);
}

void read_budget(MapReader& m, core::BudgetPolicy& p) {
  m.read("gpu_hours", p.gpu_hours);
  m.check("gpu_hours", p.gpu_hours >= 0 && p.gpu_hours <= 1e12, "must be between 0 and 1e12");
}

}  // namespace stoker::configs
