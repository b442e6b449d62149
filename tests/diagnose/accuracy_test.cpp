// The accuracy run on captured logs: class, root line, node and rank, calibration; and nothing
// fatal in the whole logs of runs that went well. Prints what is wrong, the confusions and the
// reliability table; the goals are those of the product.
#include <algorithm>
#include <array>
#include <cmath>
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <map>

#include "corpus.hpp"
#include "detector.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/log_file.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

Diagnosis diagnose_file(const std::string& path) {
  auto log = scan_file(detector(), path, 0, false);
  REQUIRE_MESSAGE(log.has_value(), path);
  return find_cause({*log}, detector().knowledge().causes);
}

std::string expected_class(const Json& row) {
  const std::string name = row.at("class");
  return name.starts_with("healthy") ? "healthy" : name;
}

struct Share {
  int right = 0, all = 0;
  void count(bool good) {
    ++all;
    right += good ? 1 : 0;
  }
  [[nodiscard]] double share() const { return all == 0 ? 1 : static_cast<double>(right) / all; }
};

// How sure the answers were, and how often such answers were right.
class Reliability {
 public:
  void count(double confidence, bool good) {
    auto& bin = bins_.at(
        std::min<std::size_t>(bins_.size() - 1, static_cast<std::size_t>(confidence * 10)));
    bin.right.count(good);
    bin.said += confidence;
  }
  void print() const {
    for (std::size_t i = 0; i < bins_.size(); ++i)
      if (const auto& [right, said] = bins_.at(i); right.all > 0)
        fmt::print("  confidence {:.1f}-{:.1f}: {} of {} right, {:.2f} said\n",
                   static_cast<double>(i) / 10, static_cast<double>(i + 1) / 10, right.right,
                   right.all, said / right.all);
    fmt::print("  calibration: said and seen lie {:.3f} apart\n", error());
  }
  // The mean distance of what was said from what was seen.
  [[nodiscard]] double error() const {
    double apart = 0;
    int all = 0;
    for (const auto& [right, said] : bins_) {
      apart += std::abs(said - right.right);
      all += right.all;
    }
    return all == 0 ? 0 : apart / all;
  }
  // By how much an answer was said too surely, at worst; of bins with ten answers or more.
  [[nodiscard]] double boast() const {
    double most = 0;
    for (const auto& [right, said] : bins_)
      if (right.all >= 10) most = std::max(most, said / right.all - right.share());
    return most;
  }

 private:
  struct Bin {
    Share right;
    double said = 0;
  };
  std::array<Bin, 10> bins_;
};

// The index names some nodes that the excerpt does not: nobody can tell those.
bool place_is_told(const Json& row, const std::string& path) {
  if (row.at("ranks").is_array()) return true;
  if (!row.at("node").is_string()) return false;
  const auto text = os::read_file(path);
  return text && text->find(row.at("node").get<std::string>()) != std::string::npos;
}

// Given: the node is the one that is named, or one of the ranks is.
bool place_is_right(const Json& row, const Diagnosis& d) {
  if (row.at("node").is_string() && d.node == row.at("node").get<std::string>()) return true;
  if (!row.at("ranks").is_array()) return false;
  auto ranks = row.at("ranks").get<std::vector<std::uint32_t>>();
  std::sort(ranks.begin(), ranks.end());
  return ranks == d.ranks;
}

}  // namespace

TEST_CASE("accuracy: captured failures -> class, root line, node and rank as the index says") {
  const auto rows = corpus_index();
  if (rows.empty()) return;
  Share classes, roots, places, codes;
  std::map<std::string, std::map<std::string, int>> confusion;
  Reliability reliability;
  for (const auto& row : rows) {
    const std::string file = row.at("file");
    const std::string path = corpus_folder() + "/dev/" + file;
    const Diagnosis d = diagnose_file(path);
    const std::string wanted = expected_class(row), got(name_of(d.failure_class));
    classes.count(wanted == got);
    if (wanted != got) ++confusion[wanted][got];
    reliability.count(d.confidence, wanted == got);
    if (wanted != got)
      fmt::print("class: {}: {} instead of {} ({})\n", file, got, wanted,
                 d.root ? d.root->text.substr(0, 160) : "-");
    if (wanted != "healthy" && row.at("root_cause_line").is_string()) {
      const std::string line = row.at("root_cause_line");
      const bool good = d.root && d.root->text.find(line) != std::string::npos;
      roots.count(good);
      if (!good)
        fmt::print("root: {}: {} instead of {}\n", file, d.root ? d.root->text.substr(0, 160) : "-",
                   line);
    }
    if (row.at("xid").is_array()) {
      auto xids = d.xids;
      std::sort(xids.begin(), xids.end());
      const bool good = row.at("xid") == Json(xids) && row.at("gpu_pci") == Json(d.gpu_pci);
      codes.count(good);
      if (!good)
        fmt::print("code: {}: {} {} instead of {} {}\n", file, Json(xids).dump(), d.gpu_pci,
                   row.at("xid").dump(), row.at("gpu_pci").dump());
    }
    if (wanted != "healthy" && place_is_told(row, path)) {
      const bool good = place_is_right(row, d);
      places.count(good);
      if (!good)
        fmt::print("place: {}: {} {} instead of {} {}\n", file, d.node, Json(d.ranks).dump(),
                   row.at("node").dump(), row.at("ranks").dump());
    }
  }
  fmt::print("class {}/{}, root line {}/{}, node or rank {}/{}, codes {}/{}\n", classes.right,
             classes.all, roots.right, roots.all, places.right, places.all, codes.right, codes.all);
  for (const auto& [wanted, others] : confusion)
    for (const auto& [got, count] : others)
      fmt::print("  {:28} taken for {:28} {}\n", wanted, got, count);
  reliability.print();
  CHECK(reliability.error() <= 0.15);
  CHECK(reliability.boast() <= 0.03);
  CHECK(classes.share() >= 0.97);
  CHECK(roots.share() >= 0.90);
  CHECK(places.share() >= 0.95);
  CHECK(codes.share() == 1);
}

TEST_CASE("accuracy: whole logs of runs that went well -> nothing fatal") {
  if (corpus_index().empty()) return;
  for (const auto& entry :
       std::filesystem::directory_iterator(corpus_folder() + "/healthy_large")) {
    const Diagnosis d = diagnose_file(entry.path().string());
    CAPTURE(entry.path().string());
    CAPTURE(d.root ? d.root->text : "");
    CHECK_FALSE(d.fatal);
    CHECK(d.failure_class == FailureClass::Healthy);
  }
}
