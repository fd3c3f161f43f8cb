// Package flaghelp owns the form in which the flags of a command are described to people. Everybody may import it.
package flaghelp

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

// noDefaults are defaults that go without saying.
var noDefaults = []string{"", "false", "0", "0s", "-1"}

// Text describes the flags of the set under a title: those named, in that order, or all of them by name. Letter gives a
// flag its second name, if it has one; nil: none has. The text of no flags is empty.
func Text(title string, set *flag.FlagSet, letter func(string) string, names ...string) string {
	var b strings.Builder
	line := func(f *flag.Flag) {
		if b.Len() == 0 {
			b.WriteString("\n" + title + "\n")
		}
		b.WriteString(one(f, letter))
	}
	if len(names) == 0 {
		set.VisitAll(line)
	}
	for _, n := range names {
		line(set.Lookup(n))
	}
	return b.String()
}

func one(f *flag.Flag, letter func(string) string) string {
	name, usage := flag.UnquoteUsage(f)
	line := "-" + f.Name
	if letter != nil && letter(f.Name) != "" {
		line = "-" + letter(f.Name) + ", " + line
	}
	if name != "" {
		line += " <" + name + ">"
	}
	if !slices.Contains(noDefaults, f.DefValue) {
		usage += " (default " + f.DefValue + ")"
	}
	return fmt.Sprintf("  %s\n        %s\n", line, usage)
}
