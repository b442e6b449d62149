// One program for all targets; its name (a link) says which. Besides not crashing, some hold a
// property: what a rank prints never becomes the kernel's word.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.hpp"

namespace stoker::fuzz {
namespace {

std::string beside_program;
void (*chosen)(std::string_view) = nullptr;

}  // namespace

void must(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

const std::string& cache_folder() {
  static const std::string path = beside_program + "patterns";
  return path;
}

const std::string& scratch_folder() {
  static const std::string path = std::filesystem::temp_directory_path().string();
  return path;
}

std::string scratch_file(const std::string& name, std::string_view bytes) {
  std::string path = scratch_folder() + "/" + name;
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  return path;
}

}  // namespace stoker::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  using namespace stoker::fuzz;
  std::string_view name = (*argv)[0];
  beside_program = name.substr(0, name.rfind('/') + 1);
  name.remove_prefix(name.rfind('/') + 1);
  for (const auto targets : {log_targets(), run_targets(), scheduler_targets(), data_targets()})
    for (const Target& target : targets) {
      if (name == "names")
        std::printf("%.*s\n", static_cast<int>(target.name.size()), target.name.data());
      if (name != target.name) continue;
      chosen = target.run;
      if (target.prepare != nullptr) target.prepare();
    }
  if (name == "names") std::exit(0);
  if (chosen == nullptr) std::abort();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stoker::fuzz::chosen({reinterpret_cast<const char*>(data), size});
  return 0;
}
