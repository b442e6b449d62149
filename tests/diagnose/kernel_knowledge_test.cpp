// The Xid and SXid tables, and captured kernel lines with what they mean (shared/data, not in the
// repository: skips aloud).
#include <cstdlib>
#include <doctest/doctest.h>
#include <iostream>
#include <sstream>

#include "common/os/files.hpp"
#include "diagnose/cause/diagnosis.hpp"
#include "diagnose/input/log_file.hpp"

using namespace stoker;
using namespace stoker::diagnose;

namespace {

std::shared_ptr<const Knowledge> ours() {
  configs::Diagnostics errors;
  return load_knowledge({}, errors);
}

}  // namespace

TEST_CASE("xid catalogue: complete, and the known ones as NVIDIA says") {
  const auto knowledge = ours();
  const XidCatalogue& xids = knowledge->xids;
  CHECK(xids.xids() == 176);
  CHECK(xids.sxids() == 400);
  CHECK(xids.xid(79, "").node_action == NodeAction::Reboot);
  CHECK(xids.xid(48, "").node_suspect == NodeSuspect::Yes);
  CHECK(xids.xid(13, "").run_action == RunAction::Restart);
  CHECK(xids.xid(13, "").fatal);
  CHECK_FALSE(xids.xid(63, "").fatal);
  CHECK_FALSE(xids.xid(45, "").fatal);
  CHECK(xids.xid(9999, "").fatal);
  CHECK(xids.sxid(20034, "SXid: 20034, Fatal, Link 48").fatal);
  CHECK_FALSE(xids.sxid(22013, "SXid: 22013, Non-fatal, Link 55").fatal);
}

TEST_CASE("xid catalogue: 154 and 144-150 -> what their text says") {
  const auto knowledge = ours();
  const XidCatalogue& xids = knowledge->xids;
  const std::string changed = "GPU recovery action changed from 0x0 (None) to ";
  CHECK(xids.xid(154, changed + "0x1 (GPU Reset Required)").node_action == NodeAction::ResetGpu);
  CHECK(xids.xid(154, changed + "0x2 (Node Reboot Required)").node_action == NodeAction::Reboot);
  CHECK(xids.xid(154, changed + "0x4 (Drain and Reset)").node_action == NodeAction::Drain);
  const auto back = xids.xid(154, "GPU recovery action changed from 0x1 (GPU Reset) to 0x0 (None)");
  CHECK(back.node_action == NodeAction::None);
  CHECK(back.node_suspect == NodeSuspect::No);
  CHECK(xids.xid(149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01").fatal);
  CHECK_FALSE(xids.xid(149, "NETIR_BER_EVENT  Nonfatal   XC0 i0 Link 01").fatal);
}

TEST_CASE("cause rules: direct pairs and their chains, never backwards") {
  const auto knowledge = ours();
  const CauseRules& rules = knowledge->causes;
  using enum FailureClass;
  CHECK(rules.explains(CudaOom, NcclTimeout, false));
  CHECK(rules.explains(CudaOom, TorchelasticChildFailed, false));
  CHECK(rules.explains(GpuFallenOffBus, SlurmTaskExit, false));
  CHECK_FALSE(rules.explains(NcclTimeout, CudaOom, true));
  CHECK(rules.explains(NcclTimeout, PythonTraceback, true));
  CHECK_FALSE(rules.explains(NcclTimeout, PythonTraceback, false));
  CHECK_FALSE(rules.explains(SlurmTimeLimit, CudaOom, true));
  CHECK(rules.xid_explains(48, 63));
  CHECK_FALSE(rules.xid_explains(63, 48));
}

TEST_CASE("kernel lines: benign ones -> not fatal; fatal ones -> fatal; errors -> a class") {
  const auto text =
      os::read_file(std::string(STOKER_SOURCE_DIR) + "/../shared/data/kernel-lines.tsv");
  if (!text) {
    std::cout << "SKIPPED: no kernel-lines.tsv\n";
    return;
  }
  const auto made = Detector::make(ours());
  REQUIRE(made.has_value());
  std::istringstream rows(*text);
  std::string row;
  std::getline(rows, row);
  int lines = 0;
  while (std::getline(rows, row)) {
    std::vector<std::string> cells;
    std::istringstream parts(row);
    for (std::string cell; std::getline(parts, cell, '\t');) cells.push_back(cell);
    REQUIRE(cells.size() >= 5);
    const auto d = find_cause({scan_text(*made, cells[4], "kernel")}, made->knowledge().causes);
    CAPTURE(cells[4]);
    ++lines;
    if (cells[1] == "benign") CHECK_FALSE(d.fatal);
    if (cells[1] == "fatal") CHECK(d.fatal);
    if (cells[1] == "error") CHECK(d.failure_class != FailureClass::Healthy);
  }
  CHECK(lines >= 52);
}
