package cli

import (
	"berth/internal/base/flaghelp"
	"berth/internal/cli/kit"
)

const overview = `Berth runs jobs on machines, and takes special care of those that have state.

An agent must run: "berth agent -dev" starts one for a try. Commands find it where -address or BERTH_ADDR says, or else
at the socket /run/berth/api.sock of an agent in service, or else at http://127.0.0.1:4646.`

// help writes what a command is for, and how it is called.
func help(p *kit.Printer, cmd *kit.Command) {
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	p.Printf("Usage: %s\n\n%s\n", cmd.Synopsis(), about)
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
		p.Text("\n" + p.Bold("Examples:") + "\n" + cmd.Example + "\n")
	}
	if cmd == cmd.Root() {
		p.Printf("%s", flaghelp.Text(p.Bold("General flags:"), cmd.Flags().FlagSet, cmd.Flags().Letter))
		return
	}
	p.Printf("%s", flaghelp.Text(p.Bold("Flags:"), cmd.Flags().FlagSet, cmd.Flags().Letter))
	p.Printf("\nFlags of every command, such as -address and -namespace: see \"berth -help\"\n")
}
