#include "cli/read/writers.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/own_files.hpp"
#include "common/os/own_folder.hpp"
#include "common/os/writers.hpp"
#include "configs/schema/run_checks.hpp"

namespace stoker::cli {
namespace {

constexpr const char* kSo = "and so decides what is executed as you";

bool is_of_another(const std::string& path) {
  return os::exists(path) && !os::check_owner(path);
}

std::string fix_of(const std::string& path) {
  return is_of_another(path) ? "use a copy that only you can write"
                             : "keep it where only you can write: chmod go-w " + path;
}

// Variables by which programs find what they load and execute, and what stands between the names in
// their values.
struct Loaded {
  const char* variable;
  const char* between = "";
};
constexpr std::array kLoaded{
    Loaded{"PATH", ":"}, Loaded{"HOME"},
    // The loader of programs, the C library, shells
    Loaded{"LD_PRELOAD", ": "}, Loaded{"LD_LIBRARY_PATH", ":;"}, Loaded{"LD_AUDIT", ":"},
    Loaded{"GCONV_PATH", ":"}, Loaded{"BASH_ENV"}, Loaded{"ENV"},
    // Python and other languages
    Loaded{"PYTHONPATH", ":"}, Loaded{"PYTHONHOME", ":"}, Loaded{"PYTHONSTARTUP"},
    Loaded{"PYTHONUSERBASE"}, Loaded{"PYTHONPYCACHEPREFIX"}, Loaded{"PERL5LIB", ":"},
    Loaded{"JULIA_LOAD_PATH", ":"}, Loaded{"JULIA_DEPOT_PATH", ":"}, Loaded{"NODE_PATH", ":"},
    Loaded{"RUBYLIB", ":"},
    // Compiled or downloaded code that is kept and loaded again
    Loaded{"TORCH_EXTENSIONS_DIR"}, Loaded{"TORCHINDUCTOR_CACHE_DIR"}, Loaded{"TRITON_CACHE_DIR"},
    Loaded{"TORCH_HOME"}, Loaded{"HF_HOME"}, Loaded{"HF_MODULES_CACHE"}, Loaded{"CUDA_CACHE_PATH"},
    Loaded{"XDG_CACHE_HOME"}, Loaded{"XDG_CONFIG_HOME"}, Loaded{"XDG_DATA_HOME"},
    Loaded{"NUMBA_CACHE_DIR"}, Loaded{"HF_HUB_CACHE"}, Loaded{"TRANSFORMERS_CACHE"},
    // Compilers that such code is made with
    Loaded{"CC"}, Loaded{"CXX"}, Loaded{"CUDA_HOME"}, Loaded{"CUDA_PATH"},
    Loaded{"TRITON_PTXAS_PATH"}, Loaded{"TRITON_LIBCUDA_PATH"},
    // Plugins
    Loaded{"CUDA_INJECTION64_PATH"}, Loaded{"NCCL_NET_PLUGIN"}, Loaded{"NCCL_TUNER_PLUGIN"},
    Loaded{"NCCL_PROFILER_PLUGIN"}, Loaded{"NCCL_CONF_FILE"}, Loaded{"OPAL_PREFIX"},
    Loaded{"UCX_MODULE_DIR"}, Loaded{"FI_PROVIDER_PATH", ":"},
    Loaded{"OMPI_MCA_mca_base_component_path", ":"}, Loaded{"OPENSSL_CONF"},
    Loaded{"OPENSSL_MODULES"}, Loaded{"OPENSSL_ENGINES"}};

std::vector<std::string> names_in(std::string_view value, std::string_view between) {
  std::vector<std::string> names;
  while (true) {
    const auto end = between.empty() ? std::string_view::npos : value.find_first_of(between);
    names.emplace_back(value.substr(0, end));
    if (end == std::string_view::npos) return names;
    value.remove_prefix(end + 1);
  }
}

// A folder in which programs look for files of any name.
std::optional<OtherWriter> other_maker_in(const std::string& folder) {
  const std::string who = os::other_maker(folder);
  if (who.empty()) return std::nullopt;
  return OtherWriter{fmt::format("{}: {} can put files there, {}", folder, who, kSo),
                     is_of_another(folder) || ::access(folder.c_str(), W_OK) != 0
                         ? "name a folder that only you can write"
                         : "name a folder that only you can write, or chmod go-w " + folder};
}

// What is not there yet: who may make it, or the first folder on the way that is missing.
std::optional<OtherWriter> other_maker_of(std::filesystem::path missing) {
  std::error_code error;
  for (auto folder = missing.parent_path(); folder != missing; folder = missing.parent_path()) {
    if (std::filesystem::is_directory(folder, error)) {
      const std::string who = os::other_maker(folder);
      if (who.empty()) return std::nullopt;
      return OtherWriter{
          fmt::format("{} is not there: {} can make it, {}", missing.string(), who, kSo),
          "leave it out, or make it where only you can write"};
    }
    missing = folder;
  }
  return std::nullopt;
}

bool is_script(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  if (path.ends_with(".py") || path.ends_with(".sh")) return true;
  // Its owner can hold open(2) by a lease, or by a FIFO that he puts there now.
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return errno == EWOULDBLOCK;  // leased: it may be one
  struct stat info {};
  std::array<char, 2> head{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      ::pread(file.get(), head.data(), head.size(), 0) != static_cast<ssize_t>(head.size()))
    return false;
  return head == std::array{'#', '!'};
}

}  // namespace

std::optional<OtherWriter> other_writer_of(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return other_maker_of(std::filesystem::absolute(path, error));
  if (std::filesystem::is_directory(path, error))
    if (auto maker = other_maker_in(path)) return maker;
  if (const std::string who = os::other_writer(path); !who.empty())
    return OtherWriter{fmt::format("{}: {} can write it, {}", path, who, kSo), fix_of(path)};
  // Of a link both count: who may lead it elsewhere, and who may exchange what it leads to.
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  for (const std::filesystem::path& file : {std::filesystem::absolute(path, error), real}) {
    const std::string folder = file.parent_path();
    if (const std::string who = os::other_writer(folder); !who.empty())
      return OtherWriter{fmt::format("{}: {} can put another file in the place of {}, {}", folder,
                                     who, file.filename().string(), kSo),
                         fix_of(folder)};
  }
  return std::nullopt;
}

std::optional<OtherWriter> other_writer_of(const Executed& file) {
  auto other = other_writer_of(file.path);
  if (other && !file.why.empty()) other->found += fmt::format(" ({})", file.why);
  return other;
}

std::vector<Executed> files_executed(const std::string& run_file, const core::RunPolicy& policy) {
  const core::TrainPolicy& train = policy.train;
  std::vector<Executed> files{{run_file, ""}};
  const auto add = [&files](const std::string& path, const std::string& why = "") {
    if (const Executed file{path, why}; std::find(files.begin(), files.end(), file) == files.end())
      files.push_back(file);
  };
  const auto add_scripts = [&](const std::vector<std::string>& command) {
    for (const std::string& word : command)
      if (const std::string path = configs::path_from(policy.directory, word); is_script(path))
        add(path);
  };
  const auto add_loaded = [&](const std::map<std::string, std::string>& environment,
                              const std::string& key) {
    for (const Loaded& loaded : kLoaded)
      if (const auto found = environment.find(loaded.variable);
          found != environment.end() && !found->second.empty())
        for (const std::string& name : names_in(found->second, loaded.between))
          if (const std::string path = configs::path_from(policy.directory, name);
              os::exists(path) || name.find('/') != std::string::npos)
            add(path, fmt::format("{} in {}", loaded.variable, key));
  };
  for (const std::string& path : {train.batch_script, train.setup, train.agent})
    if (os::exists(path)) add(path);
  add_scripts(train.command);
  add_loaded(train.environment, "train.environment");
  for (const core::FollowerPolicy& follower : policy.after) {
    add_scripts(follower.command);
    add_loaded(follower.environment, "environment of after");
  }
  return files;
}

void warn_of_writers(const Console& console, const std::vector<Executed>& files) {
  std::set<std::string> said;
  for (const Executed& file : files)
    if (const auto other = other_writer_of(file); other && said.insert(other->found).second)
      console.say(other->found + "; " + other->fix);
}

std::optional<OtherWriter> taker_of_checkpoint_names(const core::RunPolicy& policy) {
  const std::string folder = configs::path_from(policy.directory, policy.checkpoints.directory);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0 || info.st_uid == ::geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) == 0)
    return std::nullopt;
  return OtherWriter{
      fmt::format(
          "{} (checkpoints.directory): it is {}'s, and others may write there: they can take "
          "the names of checkpoints, and then none is saved",
          folder, os::user_name_of(info.st_uid)),
      "make a folder of your own in it"};
}

std::optional<OtherWriter> other_maker_of_the_end(const core::RunPolicy& policy) {
  const std::filesystem::path named = policy.train.finished.file;
  // Of a relative name the run directory, which stoker closes before each submission.
  if (named.empty() || !named.has_parent_path()) return std::nullopt;
  const std::string path = configs::path_from(policy.directory, named);
  const std::string folder = std::filesystem::path(path).parent_path();
  const std::string who = os::other_maker(folder);
  if (who.empty()) return std::nullopt;
  return OtherWriter{fmt::format("{} (train.finished.file): {} can put files into {}, also another "
                                 "file of yours under this name, which ends the run",
                                 path, who, folder),
                     "keep it in a folder where only you can write"};
}

std::vector<OtherWriter> other_makers_of_logs(const core::RunPolicy& policy) {
  std::vector<OtherWriter> found;
  for (const std::string& pattern : policy.watch.logs) {
    const auto first = pattern.find_first_of("*?[");
    if (first == std::string::npos) continue;
    const auto end = pattern.rfind('/', first);
    if (end == std::string::npos) continue;
    const std::string folder =
        configs::path_from(policy.directory, pattern.substr(0, std::max<std::size_t>(end, 1)));
    std::error_code error;
    const std::string who =
        std::filesystem::is_directory(folder, error) ? os::other_maker(folder) : "";
    if (!who.empty())
      found.push_back({fmt::format("{} (watch.logs): {} can put files into {}, which then count as "
                                   "logs of this training",
                                   pattern, who, folder),
                       "keep the logs in a folder where only you can write"});
  }
  return found;
}

void warn_of_writers(const Console& console, const std::string& run_file,
                     const core::RunPolicy& policy) {
  warn_of_writers(console, files_executed(run_file, policy));
  for (const auto& other : {taker_of_checkpoint_names(policy), other_maker_of_the_end(policy)})
    if (other) console.say(other->found + "; " + other->fix);
  for (const OtherWriter& other : other_makers_of_logs(policy))
    console.say(other.found + "; " + other.fix);
}

}  // namespace stoker::cli
