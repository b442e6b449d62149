#include "cli/read/executed.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "alerts/http_sink.hpp"
#include "common/os/fd.hpp"
#include "common/os/files.hpp"
#include "common/os/self.hpp"
#include "common/shell_word.hpp"
#include "configs/schema/run_checks.hpp"
#include "slurm/script_reader.hpp"

namespace stoker::cli {
namespace {

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
    Loaded{"TRITON_PTXAS_PATH"}, Loaded{"TRITON_LIBCUDA_PATH"}, Loaded{"TRITON_HOME"},
    Loaded{"TRITON_OVERRIDE_DIR"}, Loaded{"IPYTHONDIR"}, Loaded{"MPLCONFIGDIR"},
    Loaded{"KERAS_HOME"}, Loaded{"JAX_COMPILATION_CACHE_DIR"}, Loaded{"CUPY_CACHE_DIR"},
    Loaded{"PYTORCH_KERNEL_CACHE_PATH"}, Loaded{"MIOPEN_USER_DB_PATH"},
    Loaded{"FLASHINFER_WORKSPACE_BASE"}, Loaded{"DG_JIT_CACHE_DIR"}, Loaded{"TILELANG_CACHE_DIR"},
    Loaded{"VLLM_CACHE_ROOT"},
    // Data sets that are kept as pickles, which execute what they say
    Loaded{"HF_DATASETS_CACHE"}, Loaded{"NLTK_DATA", ":"},
    // Environments and modules
    Loaded{"MODULEPATH", ":"}, Loaded{"CONDA_PREFIX"}, Loaded{"VIRTUAL_ENV"}, Loaded{"R_LIBS", ":"},
    Loaded{"ROCM_PATH"}, Loaded{"CPATH", ":"}, Loaded{"LIBRARY_PATH", ":"},
    // Plugins
    Loaded{"NVTX_INJECTION64_PATH"}, Loaded{"PMIX_MCA_mca_base_component_path", ":"},
    Loaded{"PRTE_MCA_mca_base_component_path", ":"}, Loaded{"CUDA_INJECTION64_PATH"},
    Loaded{"NCCL_NET_PLUGIN"}, Loaded{"NCCL_TUNER_PLUGIN"}, Loaded{"NCCL_PROFILER_PLUGIN"},
    Loaded{"NCCL_CONF_FILE"}, Loaded{"OPAL_PREFIX"}, Loaded{"UCX_MODULE_DIR"},
    Loaded{"FI_PROVIDER_PATH", ":"}, Loaded{"OMPI_MCA_mca_base_component_path", ":"},
    Loaded{"OPENSSL_CONF"}, Loaded{"OPENSSL_MODULES"}, Loaded{"OPENSSL_ENGINES"}};

std::vector<std::string> names_in(std::string_view value, std::string_view between) {
  std::vector<std::string> names;
  while (true) {
    const auto end = between.empty() ? std::string_view::npos : value.find_first_of(between);
    names.emplace_back(value.substr(0, end));
    if (end == std::string_view::npos) return names;
    value.remove_prefix(end + 1);
  }
}

// Programs that execute what a word behind them names, be it a file of any kind or a folder.
enum class Takes : std::uint8_t {
  Files,
  Anything
};  // Anything: folders too, and values of options
struct Starter {
  std::string_view name;
  Takes takes = Takes::Files;
};
constexpr std::array kStarters{
    Starter{"env"}, Starter{"bash"}, Starter{"sh"}, Starter{"dash"}, Starter{"zsh"}, Starter{"ksh"},
    Starter{"source"}, Starter{"."}, Starter{"exec"}, Starter{"command"}, Starter{"nice"},
    Starter{"nohup"}, Starter{"time"}, Starter{"timeout"}, Starter{"setsid"}, Starter{"ionice"},
    Starter{"taskset"}, Starter{"numactl"}, Starter{"stdbuf"}, Starter{"sudo"}, Starter{"perl"},
    Starter{"ruby"}, Starter{"node"}, Starter{"julia"}, Starter{"Rscript"}, Starter{"srun"},
    Starter{"mpirun"}, Starter{"mpiexec"}, Starter{"torchrun"}, Starter{"deepspeed"},
    Starter{"accelerate"}, Starter{"python"}, Starter{"pypy"}, Starter{"ipython"},
    Starter{"horovodrun"}, Starter{"xargs"},
    // Containers, environments and modules, behind a command of their own: `conda activate DIR`
    Starter{"apptainer", Takes::Anything}, Starter{"singularity", Takes::Anything},
    Starter{"enroot", Takes::Anything}, Starter{"conda", Takes::Anything},
    Starter{"mamba", Takes::Anything}, Starter{"micromamba", Takes::Anything},
    Starter{"module", Takes::Anything}, Starter{"ml", Takes::Anything},
    Starter{"make", Takes::Anything}, Starter{"uv", Takes::Anything}};

std::string program_name(const std::string& word) {
  std::string name = std::filesystem::path(word).filename();
  name.resize(name.find_last_not_of("0123456789.") + 1);  // python3.11
  return word == "." ? word : name;
}

const Starter* starter_of(const std::string& word) {
  const std::string name = program_name(word);
  const auto found = std::find_if(kStarters.begin(), kStarters.end(),
                                  [&](const Starter& starter) { return starter.name == name; });
  return found == kStarters.end() ? nullptr : &*found;
}

bool takes_anything(const std::string& starter) {
  const Starter* known = starter_of(starter);
  return known != nullptr && known->takes == Takes::Anything;
}

bool is_shell(const std::string& word) {
  const std::string name = program_name(word);
  return name == "." || name == "source" || name.ends_with("sh");
}

bool is_python(const std::string& word) {
  return program_name(word).ends_with("python");
}

// ">", "2>>", "<": the next word is a file that is written or read.
bool redirects(const std::string& word) {
  const auto sign = word.find_first_not_of("0123456789&");
  return sign != std::string::npos && (word[sign] == '>' || word[sign] == '<');
}

enum class Content : std::uint8_t { Nothing, Folder, Data, Program, ShellScript };

Content content_of(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return Content::Folder;
  if (!std::filesystem::is_regular_file(path, error)) return Content::Nothing;
  if (path.ends_with(".sh")) return Content::ShellScript;
  if (path.ends_with(".py")) return Content::Program;
  // Its owner can hold open(2) by a lease, or by a FIFO that he puts there now.
  const os::Fd file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return errno == EWOULDBLOCK ? Content::Program : Content::Data;  // leased: it may be
  struct stat info {};
  std::array<char, 64> head{};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Content::Nothing;
  const ssize_t n = ::pread(file.get(), head.data(), head.size(), 0);
  const std::string_view begin(head.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
  if (begin.starts_with("\x7f"
                        "ELF"))
    return Content::Program;
  if (!begin.starts_with("#!")) return Content::Data;
  std::istringstream first(std::string(begin.substr(2, begin.find('\n') - 2)));
  std::string interpreter;
  while (first >> interpreter && (program_name(interpreter) == "env" || interpreter[0] == '-'))
    continue;
  return is_shell(interpreter) ? Content::ShellScript : Content::Program;
}

class Reader {
 public:
  explicit Reader(std::string folder) : folder_(std::move(folder)) {}

  void add(const std::string& path, const std::string& why = "") {
    if (const Executed file{path, why};
        std::find(files_.begin(), files_.end(), file) == files_.end())
      files_.push_back(file);
  }
  void add_loaded(const std::map<std::string, std::string>& environment, const std::string& where) {
    for (const Loaded& loaded : kLoaded)
      if (const auto found = environment.find(loaded.variable);
          found != environment.end() && !found->second.empty())
        for (const std::string& name : names_in(found->second, loaded.between))
          if (const std::string path = configs::path_from(folder_, name);
              name.find(slurm::kUnknown) == std::string::npos &&
              (os::exists(path) || name.find('/') != std::string::npos))
            add(path, fmt::format("{} in {}", loaded.variable, where));
  }
  // An argument vector, as it is started in the run directory.
  void add_command(const std::vector<std::string>& argv, const std::string& where) {
    std::string line;
    for (const std::string& word : argv) line += (line.empty() ? "" : " ") + shell_word(word);
    read_text(line, folder_, where);
  }
  // A file that is executed, and, of a shell script, what it names.
  void add_script(const std::string& path, const std::string& folder) {
    add(path);
    if (!read_.insert(path).second || read_.size() > kMostScripts) return;
    const auto text = os::read_file(path, kLargestScript);
    if (text) read_text(*text, folder, path);
  }
  std::vector<Executed> files() && { return std::move(files_); }

 private:
  struct Command {  // what the words so far say
    std::string folder;
    std::string starter;  // the last program that executes what a word behind it names
    std::string before;   // the word before, if it was an option without a value, or ">"
    bool begun = false;   // this is not the first word
    bool awaits = true;   // the next file is executed, no matter what it looks like
  };

  static constexpr std::size_t kMostScripts = 64, kMostSubstituted = 256;
  static constexpr std::size_t kLargestScript = 4u << 20;  // SLURM's own limit, max_script_size

  void read_text(std::string_view text, const std::string& folder, const std::string& where) {
    slurm::ScriptReader reader({}, folder);
    reader.read(text, [&](const slurm::ScriptCommand& command) { read(command, where); });
    add_loaded(reader.assigned(), where);
  }

  void read(const slurm::ScriptCommand& command, const std::string& where) {
    Command now;
    now.folder = command.folder.empty() ? folder_ : command.folder;
    for (const slurm::ScriptWord& word : command.words) {
      if (word.known() && !word.script) {
        read_word(now, word.text, where);
      } else {
        now.before.clear();
        read_substituted(word.raw, now.folder, where);
      }
      now.begun = true;
    }
  }

  // The commands in a word whose value only running them would show: eval "$(conda shell.bash
  // hook)".
  void read_substituted(std::string_view raw, const std::string& folder, const std::string& where) {
    if (substituted_ >= kMostSubstituted) return;
    for (auto at = raw.find("$("); at != std::string_view::npos; at = raw.find("$(", at + 2)) {
      const auto end = raw.find(')', at);
      if (end == std::string_view::npos) return;
      ++substituted_;
      read_text(raw.substr(at + 2, end - at - 2), folder, where);
    }
  }

  void read_word(Command& now, std::string word, const std::string& where) {
    const std::string before = std::exchange(now.before, "");
    const std::string starter = program_name(now.starter);
    const auto equals = word.find('=');
    if (redirects(before)) return;
    if (redirects(word)) {
      if (redirects(word.substr(word.size() - 1))) now.before = word;  // else "2>err.log", in one
    } else if (starter == "env" && (before == "--chdir" || before == "-C")) {
      now.folder = configs::path_from(now.folder, word);
    } else if (starter == "env" && word.starts_with("--chdir=")) {
      now.folder = configs::path_from(now.folder, word.substr(equals + 1));
    } else if (before == "-m" && is_python(now.starter)) {  // the name of a module
      now.awaits = word.starts_with("torch.distributed") || word.starts_with("accelerate");
    } else if (word.starts_with('-')) {
      if (word == "-m" && is_python(now.starter)) add(now.folder, "python -m in " + where);
      if (equals == std::string::npos)
        now.before = word;
      else
        add_word(now, word.substr(equals + 1),
                 takes_anything(now.starter) || word.starts_with("--container-image="));
    } else if (now.awaits && equals != std::string::npos && equals > 0) {  // behind env
      add_loaded({{word.substr(0, equals), word.substr(equals + 1)}}, where);
    } else {
      // The value of an option is executed only if it looks like that: --log-dir FOLDER.
      const bool flag = takes_anything(now.starter) ||
                        (before.size() == 2 && (is_python(now.starter) || is_shell(now.starter)));
      read_name(now, word, before.empty() || flag);
    }
  }

  // A word that names a program, a script or an argument.
  void read_name(Command& now, const std::string& word, bool by_itself) {
    const bool could_start = !now.begun || now.awaits;
    const bool found = add_word(now, word, by_itself);
    if (could_start && starter_of(word) != nullptr) {
      now.starter = word;
      now.awaits = true;
    } else if (!now.begun || (by_itself && !found && could_start && !takes_anything(now.starter) &&
                              !is_python(now.starter) && !is_shell(now.starter) &&
                              std::isalpha(static_cast<unsigned char>(word[0])) != 0)) {
      now.awaits = false;  // a program that PATH finds: what follows is its own
    }
  }

  // False: there is no such file.
  bool add_word(Command& now, const std::string& word, bool by_itself) {
    const std::string path = configs::path_from(now.folder, word);
    const bool awaited = now.awaits && by_itself;
    const Content content = content_of(path);
    const bool package = (is_python(now.starter) || takes_anything(now.starter)) &&
                         word.find('/') != std::string::npos;
    if (content == Content::Nothing) return false;
    if (content == Content::ShellScript ||
        (content == Content::Data && awaited && is_shell(now.starter)))
      add_script(path, now.folder);
    else if (content == Content::Program || (awaited && (content == Content::Data || package)))
      add(path);
    else
      return true;
    if (path.ends_with(".py")) add_modules(std::filesystem::path(path).parent_path());
    now.awaits = false;
    return true;
  }

  // Python looks for modules beside its script. Who may write there is named with the script, but
  // in a sticky folder others can put new files.
  void add_modules(const std::string& folder) {
    struct stat info {};
    if (::stat(folder.c_str(), &info) == 0 && (info.st_mode & S_ISVTX) != 0)
      add(folder, "where Python looks for modules");
  }

  std::string folder_;
  std::vector<Executed> files_;
  std::set<std::string> read_;
  std::size_t substituted_ = 0;
};

}  // namespace

std::vector<Executed> files_executed(const std::string& run_file, const core::RunPolicy& policy) {
  const core::TrainPolicy& train = policy.train;
  Reader reader(policy.directory);
  reader.add(run_file);
  for (const std::string& script : {train.batch_script, train.setup})
    if (os::exists(script)) reader.add_script(script, policy.directory);
  if (os::exists(train.agent)) reader.add(train.agent);
  for (const char* own : {"stoker", "stokerd", "stoker-agent", "stoker-train"})
    if (const std::string path = os::own_program(own); os::exists(path))
      reader.add(path, "a program of stoker's");
  reader.add_command(train.command, "train.command");
  reader.add_loaded(train.environment, "train.environment");
  for (const core::FollowerPolicy& follower : policy.after) {
    reader.add_command(follower.command, "a command of after");
    reader.add_loaded(follower.environment, "environment of after");
  }
  for (const core::SinkPolicy& sink : policy.alerts.sinks)
    if (sink.kind == "exec")
      reader.add_command(alerts::list_of(sink, "command"), "alerts.sinks." + sink.name);
  return std::move(reader).files();
}

}  // namespace stoker::cli
