// A diagnosis as an event of the decider. core/ and diagnose/ know nothing of each other; the
// caller that hands one to the other (the daemon, replay) includes both and names the event:
// core::Diagnosed.
#pragma once

#include <algorithm>
#include <fmt/format.h>
#include <string>

#include "common/ids.hpp"
#include "diagnose/cause/diagnosis.hpp"

namespace stoker::diagnose {

inline constexpr std::size_t kMostEvidence = 5, kLongestEvidence = 400;

// "main.log:123: text", one line.
inline std::string evidence_text(const Evidence& e) {
  std::string text = fmt::format("{}:{}: {}", e.file, e.line, e.text.substr(0, kLongestEvidence));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
  return text;
}

template <class Event>
Event as_event(const Diagnosis& d, Generation generation, Attempt attempt) {
  Event e;
  e.generation = generation;
  e.attempt = attempt;
  e.failure_class = name_of(d.failure_class);
  e.confidence = d.confidence;
  e.fatal = d.fatal;
  e.from_kernel = d.root && d.from_kernel;
  e.summary = d.summary;
  e.action = d.advice.action;
  e.advice = d.advice.text;
  if (d.rank) e.rank = Rank{*d.rank};
  for (const auto& node : d.nodes) e.nodes.emplace_back(node);
  for (const auto& node : d.exclude) e.exclude.emplace_back(node);
  if (d.root) e.evidence.push_back(evidence_text(*d.root));
  for (const auto& more : d.followed)
    if (e.evidence.size() < kMostEvidence) e.evidence.push_back(evidence_text(more));
  return e;
}

}  // namespace stoker::diagnose
