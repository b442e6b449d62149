// stoker completion bash|zsh|fish: the completion script of a shell.
#include "cli/completion.hpp"

#include <memory>

#include "cli/commands/all.hpp"

namespace stoker::cli {

Command cmd_completion() {
  return {"completion",
          "print the completion script of a shell",
          {"stoker completion bash > ~/.local/share/bash-completion/completions/stoker"},
          [](CLI::App& app, Context& context) -> Action {
            const auto shell = std::make_shared<std::string>();
            app.add_option("SHELL", *shell, "bash, zsh or fish")
                ->required()
                ->check(CLI::IsMember({"bash", "zsh", "fish"}));
            return [&context, shell] {
              const auto whole = make_application(context);
              context.console.out(render_completion(*whole->app, *shell));
              return kDone;
            };
          }};
}

}  // namespace stoker::cli
