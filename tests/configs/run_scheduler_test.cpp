// RUN.yaml's `scheduler`: the way in to SLURM, and which cluster.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "run_text.hpp"

using namespace stoker;
using namespace stoker::configs::testing;

TEST_CASE("run_scheduler: slurmrestd -> its URL, files that count from RUN.yaml") {
  const auto file = read(kTrain +
                         "scheduler: {kind: slurm, rest: {url: 'https://slurm:6820', token_file: "
                         "../token, ca_file: ca.pem}}\n");
  REQUIRE(file.errors.empty());
  CHECK(file.policy.scheduler.rest ==
        core::RestAccess{"https://slurm:6820", "/home/token", "/home/alice/ca.pem", false});
  CHECK(
      read(kTrain + "scheduler: {kind: slurm, rest: {url: 'unix:/run/rest.sock'}}").errors.empty());
  CHECK(read(kTrain + "scheduler: {kind: slurm, rest: {url: 'https://slurm', token_file: "
                      "credential:slurm}}")
            .policy.scheduler.rest.token_file == "credential:slurm");
  const auto error = [](const std::string& rest, const char* kind = "slurm") {
    return error_of(fmt::format("scheduler: {{kind: {}, rest: {{{}}}}}", kind, rest));
  };
  CHECK(error("url: 'https://slurm:6820'").find("url: needs token_file") != std::string::npos);
  CHECK(error("url: 'http://slurm', token_file: t").find("rest.insecure: true") !=
        std::string::npos);
  CHECK(error("url: slurm, token_file: t").find("expected unix:/PATH") != std::string::npos);
  CHECK(error("token_file: t").find("token_file: has no use without url") != std::string::npos);
  CHECK(error("url: 'unix:/s'", "local").find("rest: needs scheduler.kind: slurm") !=
        std::string::npos);
  CHECK(error("url: 'unix:/s', tokn_file: t").find("did you mean \"token_file\"") !=
        std::string::npos);
}

TEST_CASE(
    "run_scheduler: one cluster of several -> its name; by an option, a list, beside rest -> no") {
  CHECK(read(kTrain + "scheduler: {kind: slurm, cluster: jean-zay_2}").policy.scheduler.cluster ==
        "jean-zay_2");
  CHECK(
      read(kTrain + "scheduler: {kind: slurm, extra: [--cluster-constraint=gpu]}").errors.empty());
  for (const char* option : {"-Mzay", "-M zay", "--clusters=zay", "--cluster=zay"})
    CHECK(error_of(fmt::format("scheduler: {{kind: slurm, extra: ['{}']}}", option))
              .find("named by scheduler.cluster") != std::string::npos);
  CHECK(error_of("scheduler: {kind: slurm, cluster: 'a,b'}").find("one cluster's name") !=
        std::string::npos);
  CHECK(error_of("scheduler: {kind: slurm, cluster: -h}").find("one cluster's name") !=
        std::string::npos);
  CHECK(error_of("scheduler: {cluster: a}").find("needs scheduler.kind: slurm") !=
        std::string::npos);
  CHECK(error_of("scheduler: {kind: slurm, cluster: a, rest: {url: 'unix:/r'}}")
            .find("has no use beside rest") != std::string::npos);
}
