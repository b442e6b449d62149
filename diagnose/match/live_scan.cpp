// The ranking is done again when a scanner has found something, at most once a call.
#include "diagnose/match/live_scan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stoker::diagnose {

namespace {
constexpr std::size_t kMostSources = 10'000;

// What makes it another cause. Its line is none of it: a later look may find a better one.
std::string identity(const Diagnosis& d) {
  return fmt::format("{} {} {} {} {} {}", name_of(d.failure_class), d.fatal, d.node,
                     d.rank ? static_cast<std::int64_t>(*d.rank) : -1, fmt::join(d.exclude, ","),
                     fmt::join(d.xids, ","));
}
}  // namespace

void LiveScan::lines(const LiveSource& source, std::uint64_t before, std::string_view block) {
  const auto known = places_.find(source.name);
  if (known == places_.end()) {
    if (places_.size() >= kMostSources) return;
    const std::size_t place = scanners_.size();
    places_[source.name] = place;
    auto& scanner = scanners_.emplace_back(std::make_unique<LogScanner>(
        *detector_, sieve_, source.name, static_cast<std::uint32_t>(place), source.kernel_log));
    scanner->starts_behind(before);
    if (!source.node.empty()) scanner->stands_on(source.node);
    return scanner->block(block);
  }
  scanners_[known->second]->block(block);
}

void LiveScan::forget() {
  places_.clear();
  scanners_.clear();
  looked_at_ = 0;
  reported_.clear();
}

bool LiveScan::is_ours(const Finding& finding) const {
  if (!finding.from_kernel || finding.node.empty() || nodes_.empty()) return true;
  const auto short_name = [](std::string_view host) { return host.substr(0, host.find('.')); };
  return std::any_of(nodes_.begin(), nodes_.end(), [&](const std::string& node) {
    return short_name(node) == short_name(finding.node);
  });
}

std::size_t LiveScan::findings() const {
  std::size_t all = 0;
  for (const auto& scanner : scanners_) all += scanner->findings();
  return all;
}

std::optional<Diagnosis> LiveScan::news() {
  std::uint64_t version = 0;
  for (const auto& scanner : scanners_) version += scanner->version();
  if (version == looked_at_) return std::nullopt;
  looked_at_ = version;
  std::vector<ScannedLog> logs;
  for (const auto& scanner : scanners_) {
    logs.push_back(scanner->so_far());
    std::erase_if(logs.back().findings, [this](const Finding& f) { return !is_ours(f); });
  }
  Diagnosis diagnosis = find_cause(logs, detector_->knowledge().causes);
  if (diagnosis.failure_class == FailureClass::Unknown) return std::nullopt;
  const bool healthy = diagnosis.failure_class == FailureClass::Healthy;
  std::string now = healthy ? "" : identity(diagnosis);
  if (now == reported_) return std::nullopt;
  reported_ = std::move(now);
  return diagnosis;
}

}  // namespace stoker::diagnose
