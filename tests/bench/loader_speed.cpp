// loader_speed FOLDER SAMPLES: what the sample index of a long run costs a rank. The first call
// writes a data set of a million documents into FOLDER and builds the index; it then runs itself
// once more, which opens what is cached and reads samples in the training's order. Prints one JSON
// object.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/time.hpp"
#include "worker/train/data/training_data.hpp"

using namespace stoker;
using namespace stoker::train;

namespace {

constexpr std::uint64_t kDocuments = 1'000'000, kTokens = 64, kSequence = 64;
constexpr std::uint64_t kReads = 20'000;

[[noreturn]] void give_up(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  std::exit(1);
}

void write_data(const std::string& prefix) {
  auto writer = IndexedDatasetWriter::create(prefix, TokenType::U16);
  if (!writer) give_up(writer.error());
  std::vector<TokenId> tokens(kTokens);
  for (std::uint64_t i = 0; i < kDocuments; ++i) {
    for (std::uint64_t j = 0; j < kTokens; ++j) tokens[j] = static_cast<TokenId>((i + j) % 50'000);
    if (auto added = writer->add(tokens); !added) give_up(added.error());
    if (auto ended = writer->end_document(); !ended) give_up(ended.error());
  }
  if (auto done = writer->commit(); !done) give_up(done.error());
}

TrainingData open(const std::string& folder, std::uint64_t samples, double& seconds) {
  DataRequest request;
  request.data.train = {{folder + "/data", 1.0}};
  request.data.cache = folder + "/cache";
  request.sequence = kSequence;
  request.vocabulary = 50'000;
  request.samples = samples;
  const Instant began = monotonic_now();
  auto data = TrainingData::open(request);
  if (!data) give_up(data.error());
  for (const Error& problem : data->problems()) give_up(problem);
  seconds = to_seconds(monotonic_now() - began);
  return std::move(*data);
}

double private_mb() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("Anonymous:")) return std::atof(line.c_str() + 10) / 1e3;
  return 0;
}

void read_cached(const std::string& folder, std::uint64_t samples) {
  double seconds = 0;
  const TrainingData data = open(folder, samples, seconds);
  const Instant began = monotonic_now();
  std::uint64_t sum = 0;
  for (std::uint64_t i = 0; i < kReads; ++i) {
    const auto sample = data.sample(samples / kReads * i);
    if (!sample) give_up(sample.error());
    sum += static_cast<std::uint64_t>(sample->tokens.front());
  }
  const double each = to_seconds(monotonic_now() - began) / static_cast<double>(kReads);
  std::printf("%s\n", fmt::format("{{\"open\":{:.3f},\"private_mb\":{:.1f},\"sample_us\":{:.2f},"
                                  "\"sum\":{}}}",
                                  seconds, private_mb(), each * 1e6, sum)
                          .c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string folder = argv[1];
  const std::uint64_t samples = std::strtoull(argv[2], nullptr, 10);
  if (samples < kReads) return 2;
  if (argc > 3) {
    read_cached(folder, samples);
    return 0;
  }
  write_data(folder + "/data");
  ::mkdir((folder + "/cache").c_str(), 0700);
  double built = 0;
  open(folder, samples, built);
  std::printf("{\"built\":%.2f}\n", built);
  std::fflush(stdout);
  ::execl("/proc/self/exe", argv[0], argv[1], argv[2], "cached", nullptr);
  return 1;
}
