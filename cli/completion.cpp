// Each shell gets the same facts: the verbs with their summaries, each verb's options, and whether
// it takes the name of a run or a file.
#include "cli/completion.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace stoker::cli {
namespace {

struct Verb {
  std::string name, summary;
  std::vector<std::pair<std::string, std::string>> options;  // "--json", its description
  bool takes_run = false, takes_file = false;
};

std::string without_quotes(std::string text) {
  std::erase_if(text, [](char c) { return c == '\'' || c == '"' || c == '`' || c == '\\'; });
  for (char& c : text)
    if (c == '[' || c == ']' || c == ':') c = ' ';
  return text;
}

std::vector<Verb> verbs_of(const CLI::App& app) {
  std::vector<Verb> verbs;
  for (const CLI::App* sub :
       app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); })) {
    Verb verb{sub->get_name(), without_quotes(sub->get_description()), {}, false, false};
    std::vector<const CLI::App*> parts{sub};
    for (const CLI::App* group : sub->get_subcommands([](const CLI::App* s) {
           return s->get_name().empty();  // an option group
         }))
      parts.push_back(group);
    for (const CLI::App* part : parts)
      for (const CLI::Option* option : part->get_options()) {
        if (option->get_positional()) {
          verb.takes_run = verb.takes_run || option->get_name(true) == "RUN";
          verb.takes_file = verb.takes_file || option->get_name(true).starts_with("FILE") ||
                            option->get_name(true).ends_with(".yaml");
        }
        for (const std::string& name : option->get_lnames())
          verb.options.emplace_back("--" + name, without_quotes(option->get_description()));
      }
    verbs.push_back(std::move(verb));
  }
  return verbs;
}

constexpr const char* kRunNames =
    "stoker status --json 2>/dev/null | grep -o '\"run\":\"[A-Za-z0-9._-]*\"' | cut -d'\"' -f4";

std::string bash(const std::vector<Verb>& verbs) {
  std::string names, cases;
  for (const Verb& v : verbs) {
    names += (names.empty() ? "" : " ") + v.name;
    std::string options;
    for (const auto& [name, text] : v.options) options += (options.empty() ? "" : " ") + name;
    cases += fmt::format("    {}) options=\"{}\"; {} ;;\n", v.name, options,
                         v.takes_run    ? fmt::format("words=\"$({})\"", kRunNames)
                         : v.takes_file ? "files=1"
                                        : ":");
  }
  return "# bash completion for stoker; made by `stoker completion bash`.\n"
         "_stoker() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" verb=\"\" options=\"\" words=\"\" "
         "files=\"\" i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case \"${COMP_WORDS[i]}\" in\n"
         "    --state | --color) i=$((i + 1)) ;;\n"
         "    -*) ;;\n"
         "    *) verb=\"${COMP_WORDS[i]}\"; break ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$verb\" in\n"
         "    \"\") words=\"" +
         names + "\"; options=\"--help --version --state --color\" ;;\n" + cases +
         "  esac\n"
         "  if [[ \"$current\" == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options --state --color\" -- \"$current\"))\n"
         "  elif [[ -n \"$files\" ]]; then\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  else\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _stoker stoker\n";
}

std::string zsh(const std::vector<Verb>& verbs) {
  std::string names, cases;
  for (const Verb& v : verbs) {
    names += fmt::format("    '{}:{}'\n", v.name, v.summary);
    cases += fmt::format("    {}) _arguments", v.name);
    for (const auto& [name, text] : v.options) cases += fmt::format(" '{}[{}]'", name, text);
    cases += v.takes_run ? " '*:run:_stoker_runs'" : v.takes_file ? " '*:file:_files'" : " '*: :'";
    cases += " ;;\n";
  }
  return fmt::format(
      "#compdef stoker\n"
      "# zsh completion for stoker; made by `stoker completion zsh`.\n"
      "_stoker_runs() {{\n  local -a runs\n  runs=(${{(f)\"$({})\"}})\n  compadd -a runs\n}}\n"
      "_stoker() {{\n"
      "  local -a verbs\n"
      "  verbs=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe 'command' verbs\n"
      "    _arguments '--help[show help]' '--version[show version]' '--state[state directory]'\n"
      "    return\n"
      "  fi\n"
      "  local verb=\"$words[2]\"\n"
      "  shift words; (( CURRENT-- ))\n"
      "  case \"$verb\" in\n{}  esac\n"
      "}}\n"
      "_stoker \"$@\"\n",
      kRunNames, names, cases);
}

std::string fish(const std::vector<Verb>& verbs) {
  std::string text = fmt::format(
      "# fish completion for stoker; made by `stoker completion fish`.\n"
      "function __stoker_runs\n    {}\nend\n"
      "complete -c stoker -f\n"
      "complete -c stoker -l state -r -d 'state directory'\n"
      "complete -c stoker -l color -x -a 'auto always never' -d 'colours'\n",
      kRunNames);
  for (const Verb& v : verbs) {
    text += fmt::format("complete -c stoker -n __fish_use_subcommand -a {} -d '{}'\n", v.name,
                        v.summary);
    const std::string here =
        fmt::format("complete -c stoker -n '__fish_seen_subcommand_from {}'", v.name);
    if (v.takes_run) text += here + " -a '(__stoker_runs)'\n";
    if (v.takes_file) text += here + " -F\n";
    for (const auto& [name, description] : v.options)
      text += fmt::format("{} -l {} -d '{}'\n", here, name.substr(2), description);
  }
  return text;
}

}  // namespace

std::string render_completion(const CLI::App& app, const std::string& shell) {
  const std::vector<Verb> verbs = verbs_of(app);
  if (shell == "zsh") return zsh(verbs);
  if (shell == "fish") return fish(verbs);
  return bash(verbs);
}

}  // namespace stoker::cli
