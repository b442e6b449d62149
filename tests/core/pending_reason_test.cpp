// Why a job waits: what each of SLURM's reasons asks for.
#include "core/supply/pending_reason.hpp"

#include <doctest/doctest.h>

using namespace stoker::core::supply;

TEST_CASE("reason: each class -> waiting, a person, ours") {
  CHECK(classify_reason("Resources").kind == ReasonClass::Waiting);
  CHECK(classify_reason("ReqNodeNotAvail, UnavailableNodes:n[1-3]").kind == ReasonClass::Waiting);
  CHECK(classify_reason("JobArrayTaskLimit").kind == ReasonClass::Waiting);
  CHECK(classify_reason("QOSMaxJobsPerUserLimit").kind == ReasonClass::Waiting);
  CHECK(classify_reason("JobHeldUser").kind == ReasonClass::Person);
  CHECK(classify_reason("AssocGrpGRESMinutes").kind == ReasonClass::Person);
  CHECK(classify_reason("QOSGrpNodeLimit").kind == ReasonClass::Person);
  CHECK(classify_reason("launch failed requeued held").kind == ReasonClass::Person);
  CHECK(classify_reason("PartitionTimeLimit").kind == ReasonClass::Person);
  CHECK(classify_reason("DependencyNeverSatisfied").kind == ReasonClass::Never);
  CHECK(classify_reason("BadConstraints").kind == ReasonClass::Person);
  CHECK(classify_reason("BadConstraints", true).kind == ReasonClass::Ours);
  CHECK(classify_reason("Resources", true).meaning.find("exclusions") != std::string::npos);
  CHECK(classify_reason("SomethingNew").kind == ReasonClass::Waiting);
  CHECK(classify_reason("SomethingNew").meaning.find("does not know") != std::string::npos);
}
