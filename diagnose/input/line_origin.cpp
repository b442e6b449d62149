// Takes one label after the other off the front, by a table of expressions. Only lines on which a
// signature hit come here.
#include "diagnose/input/line_origin.hpp"

#include <array>
#include <memory>
#include <re2/re2.h>

#include "diagnose/input/line_time.hpp"

namespace stoker::diagnose {

namespace {

constexpr auto npos = std::string_view::npos;
constexpr int kMostLabels = 8;
constexpr std::size_t kLongestHeader = 512;  // labels are looked for in this much of a line
constexpr std::uint32_t kMostRanks = 1u << 20;

enum class Label {
  LocalRank,   // [default3]:, [trainer3]:
  Rank,        // [rank3]:, [rank: 3] (Lightning), rank3[4711][MainThread]: (Composer)
  NodeRank,    // [n03:5], x3005c0s7b0n0.hsn 12: (PALS)
  TaskRank,    // 3: (srun -l), [1,3]<stderr>: (mpirun --tag-output), [3]<stderr>: (horovodrun)
  Bracketed,   // [3] (mpiexec -prepend-rank); a shell's job is [1]+ or [1]  4711
  Host,        // n03: (pdsh, clush)
  Iso,         // [2026-03-25T10:34:07.530], 2023-04-18 01:46:52,554
  Ctime,       // [Sat Mar  4 04:25:12 2023]
  Syslog,      // Jun 10 03:09:55 host kernel:, <4>1 2024-06-10T03:09:55Z host kernel - - -
  Uptime,      // <6>[    2.608284][ T1042], [  +0.000003] and [Jun10 03:09] (dmesg -e)
  Kmsg,        // 6,3973,227996636,-;
  Facility,    // kern  :warn  :
  HostKernel,  // host kernel:
  Kernel,      // kernel:
  NcclHost,    // node-2:5776:5902 [0]
  Stream,      // stderr F, [pod/llm-3/pytorch], worker-1  |, (pretraining, pid=4112)
  Level        // E1218 20:27:21.426415540, - ERROR -, ERROR:root:, [NeMo E …]
};

struct Form {
  Label label;
  const char* first;  // what it may begin with: '0' any digit, 'A' any letter
  const char* expression;
};
constexpr std::array kForms{
    Form{Label::Rank, "[", R"(\[[Rr]ank:? ?(\d+)\]:? ?)"},
    Form{Label::Rank, "rR", R"([Rr]ank ?(\d+): )"},
    Form{Label::LocalRank, "[", R"(\[[a-z_]+?(\d+)\]: ?)"},
    Form{Label::NodeRank, "[", R"(\[([A-Za-z][\w.-]*):(\d+)\]:? ?)"},
    Form{Label::NodeRank, "x", R"((x\d+c\d+s\d+b\d+n\d+[\w.-]*) (\d+): ?)"},
    Form{Label::TaskRank, "0", R"((\d{1,6}): )"},
    Form{Label::Bracketed, "[", R"(\[(\d{1,6})\](?:: ?| ))"},
    Form{Label::Rank, "r", R"(rank(\d+)\[\d+\]\[[\w-]+\]: (?:[A-Z]+: [\w.]+: )?)"},
    Form{Label::TaskRank, "[A",
         R"((?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4})?)"
         R"(\[(?:(?:[\w.-]+@)?\d+,)?(\d+)\]<std(?:out|err|diag)>: ?)"},
    Form{Label::Iso, "[0",
         R"(\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?:? ?)"},
    Form{Label::Ctime, "[", R"(\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}\] ?)"},
    Form{Label::Syslog, "A",
         R"([A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d(?:\.\d+)? ([\w.-]+) (kernel|[\w.\[\]/-]+): ?)"},
    Form{Label::Syslog, "<",
         R"(<\d+>1 \d{4}-\d\d-\d\dT\S+ ([\w.-]+) ([\w./-]+) \S+ \S+ (?:-|\[[^\]]*\]) ?)"},
    Form{Label::Uptime, "[<",
         R"((?:<\d+>)?\[ *\+?\d+\.\d+(?: <[ +]*\d+\.\d+ *>)?\](?:\[ *[TC]\d+\])? ?)"},
    Form{Label::Uptime, "[", R"(\[[A-Z][a-z]{2} ?\d\d? \d\d:\d\d\] ?)"},
    Form{Label::Kmsg, "0", R"(\d+,\d+,\d+,([^;]{1,64});)"},
    Form{Label::Facility, "k", R"(kern *:\w+ *: )"},
    Form{Label::HostKernel, "A", R"(([A-Za-z][\w.-]*) kernel: ?)"},
    Form{Label::Kernel, "k", R"(kernel: ?)"},
    Form{Label::NcclHost, "A", R"(([A-Za-z][\w.-]*):\d+:\d+ \[\d+\] )"},
    Form{Label::Stream, "s", R"(std(?:out|err) [FP] )"},
    Form{Label::Stream, "[", R"(\[pod/[\w./-]+\] )"},
    Form{Label::Stream, "A", R"([a-z][\w.-]*[_-]\d+ +\| )"},
    Form{Label::Stream, "(", R"(\([^()]{0,64}\bpid=\d+(?:, ip=[\d.]+)?\) |\(raylet[^()]{0,64}\) )"},
    Form{Label::Level, "[A", R"(\[?([EWIF])\d{4} \d\d:\d\d:\d\d\.\d+ (?:\d+ \S+:\d+\] )?)"},
    Form{Label::Level, "[", R"(\[NeMo ([A-Z]) [^\]]{1,80}\] ?)"},
    Form{Label::Level, "-A", R"((?:- )?(?:[\w.]+ - )?([A-Z]{4,8}) - )"},
    Form{Label::Level, "[", R"(\[([A-Z]{4,8})\] )"},
    Form{Label::Level, "|", R"(\| ([A-Z]{4,8}) +\| [^ ]+ - )"},
    Form{Label::Level, "A", R"((ERROR|CRITICAL|INFO|WARNING|DEBUG):[\w.]+:)"},
    Form{Label::Level, "0", R"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d \[([A-Z]{4,8})\|[^\]]{1,80}\]: ?)"},
    Form{Label::Host, "A", R"(([a-z][a-z0-9.-]*\d): )"},
    Form{Label::Host, "0", R"((\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}): )"},
};

const std::array<std::unique_ptr<RE2>, kForms.size()>& compiled_forms() {
  static const auto forms = [] {
    std::array<std::unique_ptr<RE2>, kForms.size()> all;
    for (std::size_t i = 0; i < all.size(); ++i) {
      RE2::Options latin1;
      latin1.set_encoding(RE2::Options::EncodingLatin1);
      all[i] = std::make_unique<RE2>(kForms[i].expression, latin1);
    }
    return all;
  }();
  return forms;
}

bool may_begin(const Form& form, char c) {
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  for (const char* first = form.first; *first != 0; ++first)
    if (*first == c || (*first == '0' && c >= '0' && c <= '9') || (*first == 'A' && letter))
      return true;
  return false;
}

std::optional<std::uint32_t> small_number(re2::StringPiece text, std::uint32_t below) {
  std::uint32_t value = 0;
  if (!RE2::FullMatch(text, R"((\d+))", &value) || value >= below) return std::nullopt;
  return value;
}

using Groups = std::array<re2::StringPiece, 8>;

// "<30>" and the first number of a record of /dev/kmsg: 8 times the facility, which is 0 for the
// kernel alone, and the level.
bool is_kernels(re2::StringPiece header) {
  static const RE2 kPriority(R"(^<?(\d{1,9})[>,])");
  std::uint32_t priority = 0;
  return RE2::PartialMatch(header, kPriority, &priority) && priority < 8;
}

bool is_header(Label label) {
  return label == Label::Iso || label == Label::Ctime || label == Label::HostKernel ||
         label == Label::Kernel || label == Label::Uptime || label == Label::Kmsg ||
         label == Label::Facility;
}

void take_kernel_header(bool kernels, LineOrigin& origin) {
  if (kernels && !origin.other_program)
    origin.kernel_header = true;
  else if (!origin.kernel_header)
    origin.other_program = true;
}

void take(Label label, const Groups& g, LineOrigin& origin) {
  switch (label) {
    case Label::LocalRank:
      origin.local_rank = small_number(g[1], kMostRanks);
      origin.rank_label = true;
      return;
    case Label::Rank:
    case Label::TaskRank:
    case Label::Bracketed:
      origin.rank = small_number(g[1], kMostRanks);
      origin.rank_label = true;
      return;
    case Label::NodeRank:
      origin.node = g[1].as_string();
      origin.rank = small_number(g[2], kMostRanks);
      origin.rank_label = true;
      return;
    case Label::Iso:
      if (const auto time = read_line_time({g[0].data(), g[0].size()})) origin.time_ms = time->ms;
      return;
    case Label::Ctime:
      if (const auto time = read_line_time({g[0].data(), g[0].size()}); time && time->has_year)
        origin.time_ms = time->ms;
      return take_kernel_header(true, origin);
    case Label::Syslog:
      origin.node = g[1].as_string();
      // `logger -t kernel` has a priority of its own, where the line has one.
      return take_kernel_header(g[2] == "kernel" && (!g[0].starts_with("<") || is_kernels(g[0])),
                                origin);
    case Label::HostKernel: origin.node = g[1].as_string(); [[fallthrough]];
    case Label::Facility:
    case Label::Kernel: return take_kernel_header(true, origin);
    case Label::Uptime:
      return take_kernel_header(!g[0].starts_with("<") || is_kernels(g[0]), origin);
    case Label::Kmsg:  // "6,3973,227996636,c;" is a fragment, and whose text it is unknown
      return take_kernel_header(is_kernels(g[0]) && g[1].starts_with("-"), origin);
    case Label::NcclHost:
    case Label::Host: origin.node = g[1].as_string(); return;
    case Label::Stream: return;
    case Label::Level: origin.mild = std::string_view("IWD").find(g[1][0]) != npos; return;
  }
}

// "n03: " is what pdsh puts in front of a line; "eth0: " and "step12: " are no machines.
bool names_host(re2::StringPiece word) {
  static const RE2 kOther(
      R"((?:eth|ib|bond|hsn|cxi|en[a-z]+|mlx|nvidia-nvswitch|nvme|md|dm|sd[a-z]|loop)"
      R"(|python|bash|cuda|device|layer|stage)"
      R"(|step|iter(?:ation)?|epoch|batch|sample|shard|task|thread|proc(?:ess)?|pid|line|attempt)"
      R"()[_-]?\d\w*|gpu[_-]?\d)");
  return !RE2::FullMatch(word, kOther);
}

bool goes_on_in_words(re2::StringPiece line, re2::StringPiece label) {
  if (label.find(':') != npos) return true;
  line.remove_prefix(label.size());
  return !line.empty() && std::string_view(" +-0123456789").find(line[0]) == npos;
}

}  // namespace

LineOrigin read_origin(std::string_view line) {
  LineOrigin origin;
  re2::StringPiece rest(line.data(), std::min(line.size(), kLongestHeader));
  const char* kernel_begin = nullptr;  // behind the last label of a kernel's header
  for (int labels = 0; labels < kMostLabels; ++labels) {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\t')) rest.remove_prefix(1);
    if (rest.empty()) break;
    bool found = false;
    for (std::size_t i = 0; i < kForms.size() && !found; ++i) {
      if (!may_begin(kForms[i], rest[0])) continue;
      Groups groups;
      if (!compiled_forms()[i]->Match(rest, 0, rest.size(), RE2::ANCHOR_START, groups.data(),
                                      static_cast<int>(groups.size())))
        continue;
      if (kForms[i].label == Label::Host && (labels > 0 || !names_host(groups[1]))) continue;
      if (kForms[i].label == Label::Bracketed &&
          (origin.rank_label || labels > 1 || !goes_on_in_words(rest, groups[0])))
        continue;
      found = true;
      if (origin.kernel_header && kernel_begin == nullptr && !is_header(kForms[i].label))
        kernel_begin = rest.data();
      take(kForms[i].label, groups, origin);
      rest.remove_prefix(groups[0].size());
    }
    if (!found) break;
  }
  origin.message = line.substr(static_cast<std::size_t>(rest.data() - line.data()));
  if (kernel_begin == nullptr) kernel_begin = rest.data();
  origin.kernel_message = line.substr(static_cast<std::size_t>(kernel_begin - line.data()));
  // "slurmstepd-n03: error: …", "slurmd[n03]: …"
  static const RE2 kStepd(R"(^slurm(?:step)?d(?:-([\w.-]+)|\[([A-Za-z][\w.-]*)\]): )");
  if (std::string dashed, bracketed;
      rest.starts_with("slurm") && RE2::PartialMatch(rest, kStepd, &dashed, &bracketed))
    origin.node = dashed.empty() ? bracketed : dashed;
  return origin;
}

KernelWords kernel_words(const LineOrigin& origin, std::string_view line, std::size_t at) {
  if (origin.rank_label || origin.other_program) return KernelWords::No;
  const auto begin = static_cast<std::size_t>(origin.message.data() - line.data());
  if (origin.kernel_header) return KernelWords::Header;
  if (at <= begin) return KernelWords::Bare;
  const re2::StringPiece before(line.data() + begin, std::min(at, line.size()) - begin);
  static const RE2 kMonitor(
      R"((?i)^[^"'`{}]{0,200}(?:\bxid\b|\bkernel:|\bdmesg\b|\bsxid\b)[^"'`{}]{0,128}$)");
  return RE2::PartialMatch(before, kMonitor) ? KernelWords::Quoted : KernelWords::No;
}

bool told_as_information(std::string_view line, std::size_t at) {
  constexpr std::size_t kFront = 240;
  re2::StringPiece front(line.data(), std::min(at, kFront));
  static const RE2 kLevel(
      R"((?:^|[\s\[|("-])(DEBUG|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL)(?:[\]|:"]| +[-|\[:>]|  ))"
      R"(|(?:^|NCCL |\d\d:\d\d:\d\d\S* (?:\S+ )?)(DEBUG|INFO|WARN|WARNING|ERROR|FATAL) )"
      R"(|(?:\blevel=|\x22(?:level|levelname|severity)\x22: ?)\x22?(?i:(debug|info|warn|error|critical|fatal)))"
      R"(|(?:^|[\s\[])([IWEF])\d{3,4} \d\d:\d\d:\d\d\.|\[NeMo ([IWE]) )");
  bool information = false;
  for (std::array<re2::StringPiece, 5> words;
       RE2::FindAndConsume(&front, kLevel, &words[0], &words[1], &words[2], &words[3], &words[4]);)
    for (const auto word : words)
      if (!word.empty()) information = std::string_view("IDNid").find(word[0]) != npos;
  return information;
}

std::string quoted_node(std::string_view line, std::size_t at) {
  static const RE2 kHost(R"(([A-Za-z][\w.-]*) kernel: )");
  std::string node;
  RE2::PartialMatch(re2::StringPiece(line.data(), std::min(at, line.size())), kHost, &node);
  return node;
}

PathOrigin read_path_origin(std::string_view path) {
  static const RE2 kRank(
      R"((?i)(?:ranks?[/_.-]?|(?:^|/)(?:worker|task|proc)[_.-]?)(\d{1,6})(?:[._/-][^/]*)?$)");
  static const RE2 kElastic(R"(/(\d{1,6})/(?:stdout|stderr)\.log)");
  static const RE2 kNode(
      R"((?i)(?:^|/)(?:dmesg|kern|kernel|messages|syslog|journal)[._-]([a-z][\w-]*\d[\w-]*)(?:\.[a-z.]+)?$)");
  static const RE2 kStacks(R"(/stacks/[^/]+/([A-Za-z][\w.-]*)\.(\d{1,6})\.txt$)");
  PathOrigin origin;
  const re2::StringPiece text(path.data(), path.size());
  std::uint32_t rank = 0;
  if (RE2::PartialMatch(text, kStacks, &origin.node, &rank)) {
    origin.rank = rank;
    return origin;
  }
  if (RE2::PartialMatch(text, kElastic, &rank) || RE2::PartialMatch(text, kRank, &rank))
    origin.rank = rank;
  RE2::PartialMatch(text, kNode, &origin.node);
  return origin;
}

}  // namespace stoker::diagnose
