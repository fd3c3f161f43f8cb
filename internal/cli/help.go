package cli

import (
	"flag"
	"slices"
	"strings"

	"berth/internal/cli/kit"
)

const overview = `Berth runs jobs on machines, and takes special care of those that have state.

An agent must run: "berth agent -dev" starts one for a try. Commands find it where -address or BERTH_ADDR says, or else
at the socket /run/berth/api.sock of an agent in service, or else at http://127.0.0.1:4646.`

// help writes what a command is for, and how it is called.
func help(p *kit.Printer, cmd *kit.Command) {
	_, args, _ := strings.Cut(cmd.Use, " ")
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	if len(cmd.Verbs()) > 0 {
		args = "<command> [flags] [arguments]"
	}
	use := strings.TrimSpace(cmd.Path() + " " + args)
	p.Printf("Usage: %s\n\n%s\n", strings.TrimSuffix(use, " [flags]"), about)
	width := 0
	for _, c := range cmd.Verbs() {
		width = max(width, len(c.Name()))
	}
	if width > 0 {
		p.Printf("\n%s\n", p.Bold("Commands:"))
	}
	for _, c := range cmd.Verbs() {
		p.Printf("  %-*s  %s\n", width, c.Name(), c.Short)
	}
	if cmd.Example != "" {
		p.Printf("\n%s\n%s\n", p.Bold("Examples:"), cmd.Example)
	}
	if cmd == cmd.Root() {
		flags(p, "General flags:", cmd.Flags())
		return
	}
	flags(p, "Flags:", cmd.Flags())
	p.Printf("\nFlags of every command, such as -address and -namespace: see \"berth -help\"\n")
}

// noDefaults are defaults that go without saying.
var noDefaults = []string{"", "false", "0", "0s", "-1"}

func flags(p *kit.Printer, title string, set *kit.Flags) {
	first := true
	set.VisitAll(func(f *flag.Flag) {
		if first {
			p.Printf("\n%s\n", p.Bold(title))
			first = false
		}
		name, usage := flag.UnquoteUsage(f)
		line := "-" + f.Name
		if letter := set.Letter(f.Name); letter != "" {
			line = "-" + letter + ", " + line
		}
		if name != "" {
			line += " <" + name + ">"
		}
		if !slices.Contains(noDefaults, f.DefValue) {
			usage += " (default " + f.DefValue + ")"
		}
		p.Printf("  %s\n        %s\n", line, usage)
	})
}
