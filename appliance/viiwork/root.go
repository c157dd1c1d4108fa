package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

const rootHelp = `viiwork runs llama.cpp on machines' graphics cards and answers OpenAI- and Anthropic-style requests.

Each machine has one file (viiwork.yaml) and runs one node ('viiwork serve'); the nodes find each other and answer for
each other. To see it work without any of that: 'viiwork demo'.

Exit codes: 0 done, 1 failed, 2 wrong use, 3 the node is not running, 4 refused.
The configuration is --config, else $VIIWORK_CONFIG, else ./viiwork.yaml, else /etc/viiwork/viiwork.yaml.
NO_COLOR=1 switches emphasis off. Nothing here asks a question without a terminal.`

// rootCommand builds the whole command line anew, so that no state outlives a run.
func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:               "viiwork",
		Short:             "models of many machines behind one OpenAI-style address",
		Long:              rootHelp,
		Args:              cobra.ArbitraryArgs, // or cobra words the error about an unknown verb itself
		RunE:              needVerb,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		DisableAutoGenTag: true,
	}
	root.SetIn(c.In)
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError("%w: see '%s --help'", err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&c.configPath, "config", "", "the configuration `file`")
	flags.BoolVarP(&c.quiet, "quiet", "q", false, "print results and errors only")
	flags.BoolVarP(&c.yes, "yes", "y", false, "take every question as answered with yes")
	root.AddCommand(
		c.initCommand(), c.serveCommand(), c.demoCommand(),
		c.statusCommand(), c.topCommand(), c.modelsCommand(), c.logsCommand(), c.drainCommand(),
		c.aliasCommand(), c.joinCodeCommand(), c.imagesCommand(), c.acceptCommand(), c.connectCommand(),
		c.configCommand(), c.doctorCommand(), c.uninstallCommand(), c.benchCommand(), c.simCommand(),
		c.updateCommand(), c.releaseCommand(),
		c.versionCommand(), c.completionCommand(), c.manCommand(),
	)
	return root
}

// needVerb runs where a verb of its own is missing: alone it prints help, with an argument it names what was meant.
func needVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	cmd.SuggestionsMinimumDistance = 2 // letters a slip may be off
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean '%s'?", strings.Join(near, "' or '"))
	}
	return usageError("unknown command %q: %s", args[0], hint)
}

// exactly and atMost are cobra's own checks with our exit code and a way out.
func exactly(n int, wants string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError("%s, not %s: see '%s --help'", wants, count(len(args), "argument"), cmd.CommandPath())
		}
		return nil
	}
}

func atMost(n int, wants string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usageError("%s, not %s: see '%s --help'", wants, count(len(args), "argument"), cmd.CommandPath())
		}
		return nil
	}
}

const takesNone = "it takes no argument"
