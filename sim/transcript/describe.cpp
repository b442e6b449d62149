// Decisions in short form.
#include "sim/transcript/describe.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/hostlist.hpp"
#include "wire/follow_files.hpp"

namespace stoker::sim {
namespace {

std::string text(const core::WriteOrders& a) {
  const wire::Orders& o = a.orders;
  std::string resume(name_of(o.resume.mode));
  if (o.resume.mode == wire::ResumeMode::Exact)
    resume += fmt::format(" {}.g{}", o.resume.iteration.value, o.resume.generation.value);
  if (o.lr_scale != 1.0) resume += fmt::format(" lr x {}", o.lr_scale);
  if (o.skip_samples != 0) resume += fmt::format(" skip {}", o.skip_samples);
  if (o.resume.mode == wire::ResumeMode::Newest)
    for (const wire::Skip& skip : o.skips)
      resume += fmt::format(" skip {} from g{}", skip.samples, skip.through.value);
  return fmt::format(
      "orders {} {} on {}+{} nodes{}{}{}", o.number.value, resume, o.nodes, o.spares,
      o.exclude.empty() ? "" : " without " + compress_hostlist(o.exclude),
      o.preflight       ? " testing all"
      : o.bench.empty() ? ""
                        : " testing " + compress_hostlist(o.bench),
      o.keep_pin.empty() ? "" : fmt::format(" keeping {}", fmt::join(o.keep_pin, ",")));
}

std::string text(const core::Submit& a) {
  return fmt::format("submit {} tasks={} nodes={}{}{}{}", a.token.text, a.array_tasks, a.nodes,
                     a.unreserved ? " unreserved" : "",
                     a.exclude.empty() ? "" : " without " + compress_hostlist(a.exclude),
                     a.dependency.empty() ? "" : " " + a.dependency);
}

std::string text(const core::Cancel& a) {
  return fmt::format("cancel {}{}", a.whole_array ? JobId{a.job.job, 0}.text() : a.job.text(),
                     a.pending_only ? " pending only" : (a.whole_array ? " whole array" : ""));
}

std::string text(const core::SetExclusions& a) {
  return fmt::format("exclude {} from {}", a.nodes.empty() ? "no node" : compress_hostlist(a.nodes),
                     a.job.text());
}

std::string text(const core::SignalJob& a) {
  return fmt::format("signal {} {}", a.job.text(), a.signal);
}

std::string text(const core::SetKillSwitch& a) {
  return fmt::format("kill switch {} {}", a.path, a.there ? "set" : "moved aside");
}

std::string text(const core::ProbeJob& a) {
  return fmt::format("probe {}{}", a.job.text(),
                     a.nodes.empty() ? "" : " inside " + compress_hostlist(a.nodes));
}

std::string text(const core::SetResumePoint& a) {
  return fmt::format("{} {} of {} ({})", a.write ? "set back to" : "look for", a.iteration.value,
                     a.directory, a.format);
}

std::string text(const core::LookAtTree& a) {
  return "look at " + a.path;
}

std::string text(const core::DrainNode& a) {
  return a.lift ? "undrain " + a.node.text : fmt::format("drain {} ({})", a.node.text, a.why);
}

std::string text(const core::RunFollower& a) {
  return fmt::format("follow {} {} ({})", a.token.text, a.checkpoint,
                     a.exclude.empty() ? "any node" : "without " + compress_hostlist(a.exclude));
}

std::string text(const core::RemoveFollowFolder& a) {
  return "delete after/" + wire::follow_folder(a.follower, a.iteration, a.generation);
}

std::string text(const core::LookUpToken& a) {
  return "look up " + a.token.text;
}

std::string text(const core::WriteControl& a) {
  const wire::Control& c = a.control;
  return fmt::format("control generation={} epoch={} level={}{} save={} stacks={} restart={}{}{}{}",
                     c.generation.value, c.epoch.value, name_of(c.level),
                     c.leave_of.value == 0 ? "" : fmt::format(" of attempt {}", c.leave_of.value),
                     c.save, c.stacks, c.restart,
                     c.exclude.empty() ? "" : " without " + compress_hostlist(c.exclude),
                     c.halt.empty() ? "" : " halted",
                     c.lifts.value == 0 ? "" : fmt::format(" lifts={}", c.lifts.value));
}

std::string text(const core::ConsumeSwitch& a) {
  return "consume switch " + a.name;
}

std::string text(const core::SendAlert& a) {
  if (a.resolved) return fmt::format("alert {} resolved", a.id);
  if (const auto by = a.labels.find("acknowledged_by"); by != a.labels.end())
    return fmt::format("alert {} acknowledged by {}", a.id, by->second);
  return fmt::format("alert {} {} \"{}\"{}", a.id, name_of(a.severity), a.summary,
                     a.command.empty() ? "" : fmt::format(" -> {}", a.command));
}

}  // namespace

std::string describe(const core::Action& action) {
  return std::visit([](const auto& a) { return text(a); }, action);
}

std::string describe(const core::JournalRow& row) {
  const core::Decision& d = row.decision;
  if (d.reason.empty() && d.actions.empty() && d.from == d.to) return {};
  std::string state;
  if (d.from != d.to)
    state = d.from + " -> " + d.to;
  else
    state = d.to.empty() ? "site" : d.to;
  const auto at = row.event.at - Instant{};
  std::string out =
      fmt::format("{} {}{}{}{}\n", format_duration(at), state, d.rejected ? " REJECTED" : "",
                  d.reason.empty() ? "" : ": ", d.reason);
  for (const core::Action& action : d.actions) out += "    " + describe(action) + "\n";
  return out;
}

}  // namespace stoker::sim
