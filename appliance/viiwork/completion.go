package main

import (
	"github.com/spf13/cobra"
)

const completionHelp = `Prints a completion script.

  bash        source <(viiwork completion bash)        (the package bash-completion must be installed)
  zsh         viiwork completion zsh > "${fpath[1]}/_viiwork"   (after 'autoload -U compinit && compinit')
  fish        viiwork completion fish > ~/.config/fish/completions/viiwork.fish   (make the folder if it is missing)
  powershell  viiwork completion powershell | Out-String | Invoke-Expression

The line for bash or powershell goes into the shell's own start file; the files of zsh and fish are found by the next shell.`

func (c *cli) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "print a completion script for bash, zsh, fish or powershell",
		Long:      completionHelp,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      exactly(1, "it takes one shell: bash, zsh, fish or powershell"),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.Out, true)
			case "zsh":
				return root.GenZshCompletion(c.Out)
			case "fish":
				return root.GenFishCompletion(c.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.Out)
			}
			return usageError("no completion for %q: it knows bash, zsh, fish and powershell", args[0])
		},
	}
}

// offer lets a shell complete a flag's value.
func offer(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that is not there only
}
