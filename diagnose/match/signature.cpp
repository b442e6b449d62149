// The strict reader of a signature file.
#include "diagnose/match/signature.hpp"

#include <algorithm>
#include <re2/re2.h>

#include "configs/schema/yaml_reader.hpp"
#include "diagnose/cause/advice_file.hpp"
#include "diagnose/match/signature_lint.hpp"

namespace stoker::diagnose {

namespace {

double usual_confidence(Severity severity) {
  switch (severity) {
    case Severity::Fatal: return 0.9;
    case Severity::Clue: return 0.5;
    case Severity::Warning: return 0.85;
    case Severity::Success:
    case Severity::Benign: return 1;
  }
  return 0.5;
}

void read_signature(configs::MapReader& m, Signature& s, Lint lint) {
  m.require("name", s.name);
  m.require("class", s.failure_class);
  m.read("severity", s.severity);
  m.read("weight", s.weight);
  s.confidence = usual_confidence(s.severity);
  m.read("confidence", s.confidence);
  m.read("kernel", s.kernel);
  m.read("names_guilty", s.names_guilty);
  m.read("told_late", s.told_late);
  std::string needs;
  m.read("needs", needs);
  s.needs_traceback = needs == "traceback";
  m.read("node_suspect", s.node_suspect);
  m.read("decode", s.decode);
  m.require("pattern", s.pattern);
  if (m.has("advice")) {
    s.has_advice = true;
    m.map("advice", [&](configs::MapReader& a) { read_advice(a, s.advice); });
  }
  m.require("source", s.source);
  m.require("example", s.example);
  m.require("counter_example", s.counter_example);
  m.check("weight", s.weight >= 1 && s.weight <= 10, "must be 1 to 10");
  m.check("confidence", s.confidence > 0 && s.confidence <= 1, "must be above 0 and at most 1");
  m.check("needs", needs.empty() || s.needs_traceback, "must be traceback");
  if (lint == Lint::No) return;  // ours: the tests compile them
  RE2::Options quiet;
  quiet.set_log_errors(false);
  quiet.set_encoding(RE2::Options::EncodingLatin1);
  const RE2 compiled(s.pattern, quiet);
  m.check("pattern", compiled.ok(), compiled.error());
}

}  // namespace

std::vector<Signature> read_signatures(std::string_view text, const std::string& file,
                                       const std::vector<Signature>& known,
                                       configs::Diagnostics& errors, Lint lint) {
  std::vector<Signature> found;
  configs::YamlReader reader(text, file);
  reader.root([&](configs::MapReader& m) {
    std::string family;
    m.require("family", family);
    m.list("signatures", [&](configs::ValueReader& item) {
      Signature signature;
      signature.family = family;
      item.map([&](configs::MapReader& entry) {
        read_signature(entry, signature, lint);
        if (lint == Lint::No) return;
        for (const SignatureFault& fault : lint_signature(signature, known))
          entry.check(fault.key, false, fault.what);
      });
      const auto same = [&](const Signature& s) { return s.name == signature.name; };
      if (std::any_of(known.begin(), known.end(), same) ||
          std::any_of(found.begin(), found.end(), same))
        item.error("a signature of this name exists: " + signature.name);
      found.push_back(std::move(signature));
    });
  });
  const auto wrong = reader.errors();
  errors.insert(errors.end(), wrong.begin(), wrong.end());
  return found;
}

}  // namespace stoker::diagnose
