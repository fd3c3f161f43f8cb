package cli

import (
	"slices"
	"strings"

	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const overview = `Berth runs jobs on machines, and takes special care of those that have state.

An agent must run: "berth agent -dev" starts one for a try. Commands find it at http://127.0.0.1:4646, or where
-address or BERTH_ADDR says.`

// help writes what a command is for, and how it is called.
func help(p *kit.Printer, cmd *cobra.Command) {
	use := cmd.UseLine()
	if cmd.HasSubCommands() {
		use = cmd.CommandPath() + " <command> [flags] [arguments]"
	}
	p.Printf("Usage: %s\n", strings.TrimSuffix(use, " [flags]"))
	about := cmd.Long
	switch {
	case !cmd.HasParent():
		about = overview
	case about == "":
		about = cmd.Short + "."
	}
	p.Printf("\n%s\n", about)
	if cmd.HasAvailableSubCommands() {
		p.Printf("\n%s\n", p.Bold("Commands:"))
		subCommands(p, cmd)
	}
	if cmd.HasExample() {
		p.Printf("\n%s\n%s\n", p.Bold("Examples:"), cmd.Example)
	}
	flags(p, "Flags:", cmd.NonInheritedFlags(), cmd.HasParent())
	if !cmd.HasParent() {
		flags(p, "General flags:", cmd.PersistentFlags(), false)
		return
	}
	p.Printf("\nFlags of every command, such as -address and -namespace: see \"berth -help\"\n")
}

func subCommands(p *kit.Printer, cmd *cobra.Command) {
	list := slices.Clone(cmd.Commands())
	slices.SortFunc(list, func(a, b *cobra.Command) int { return strings.Compare(a.Name(), b.Name()) })
	width := 0
	for _, c := range list {
		width = max(width, len(c.Name()))
	}
	for _, c := range list {
		if c.IsAvailableCommand() || c.DisableFlagParsing {
			p.Printf("  %s%s  %s\n", c.Name(), strings.Repeat(" ", width-len(c.Name())), c.Short)
		}
	}
}

func flags(p *kit.Printer, title string, set *pflag.FlagSet, wanted bool) {
	if title == "Flags:" && !wanted {
		return
	}
	first := true
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		if first {
			p.Printf("\n%s\n", p.Bold(title))
			first = false
		}
		name, usage := pflag.UnquoteUsage(f)
		if f.Value.Type() == "bool" {
			name = ""
		}
		line := "-" + f.Name
		if f.Shorthand != "" {
			line = "-" + f.Shorthand + ", " + line
		}
		if name != "" {
			line += " <" + name + ">"
		}
		if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" && d != "[]" && d != "-1" {
			usage += " (default " + d + ")"
		}
		p.Printf("  %s\n        %s\n", line, usage)
	})
}
