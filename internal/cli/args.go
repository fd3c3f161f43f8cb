package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/cli/kit"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// aliases are old names of commands that people still type.
var aliases = map[string][]string{
	"alloc-status": {"alloc", "status"}, "eval-status": {"eval", "status"}, "node-status": {"node", "status"},
	"server-members": {"server", "members"}, "volume-status": {"volume", "status"},
	"-v": {"version"}, "-version": {"version"}, "--version": {"version"},
}

// normalize turns what people type into what the library reads: flags with one dash (-detach, -var x=y) get two, and
// flags are told from arguments by what each command knows. It stops at the first argument where the command does, as
// exec must. Words that are no command are refused here, with the closest one.
func normalize(root *cobra.Command, args []string) ([]string, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return args, nil
	}
	switch to, ok := aliases[args[0]]; {
	case ok:
		args = slices.Concat(to, args[1:])
	case args[0] == "help":
		args = slices.Concat(args[1:], []string{"-help"})
	}
	cur, out := root, []string{}
	words := true // commands may still come
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			return append(out, args[i:]...), nil
		case len(arg) < 2 || arg[0] != '-':
			if words {
				next, err := child(cur, arg)
				if err != nil {
					return nil, err
				}
				if next != nil {
					cur, out = next, append(out, arg)
					if cur.DisableFlagParsing {
						return append(out, args[i+1:]...), nil
					}
					continue
				}
				words = false
			}
			if cur.Annotations[kit.StopAtArgument] != "" {
				return append(out, args[i:]...), nil
			}
			out = append(out, arg)
		default:
			flag, more := oneFlag(cur, arg, args[i+1:])
			out = append(out, flag)
			i += more
		}
	}
	return out, nil
}

// child finds the command that a word names beneath another one. Where there are commands but not this one, the error
// names the closest.
func child(cmd *cobra.Command, word string) (*cobra.Command, error) {
	for _, c := range cmd.Commands() {
		if c.Name() == word || c.HasAlias(word) {
			return c, nil
		}
	}
	if !cmd.HasSubCommands() {
		return nil, nil
	}
	err := fault.New(fault.Invalid, "", "", fmt.Sprintf("there is no command %q", strings.TrimPrefix(cmd.CommandPath()+" "+word, "berth ")))
	hint := fmt.Sprintf("%q lists the commands", cmd.CommandPath()+" -help")
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+near[0])
	}
	return nil, &kit.Exit{Code: kit.ExitUnknown, Err: fault.WithHint(err, hint)}
}

// oneFlag rewrites a flag together with its value and tells how many further arguments that took. What is not a flag of
// the command is left for the library to refuse.
func oneFlag(cmd *cobra.Command, arg string, rest []string) (string, int) {
	name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	f := lookup(cmd, name)
	switch {
	case f == nil:
		return "--" + name, 0
	case has:
		return "--" + f.Name + "=" + value, 0
	case f.NoOptDefVal != "" || len(rest) == 0:
		return "--" + f.Name, 0
	}
	return "--" + f.Name + "=" + rest[0], 1
}

func lookup(cmd *cobra.Command, name string) *pflag.Flag {
	cmd.InitDefaultHelpFlag()
	for _, set := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags(), cmd.InheritedFlags()} {
		if f := set.Lookup(name); f != nil {
			return f
		}
		if len(name) == 1 {
			if f := set.ShorthandLookup(name); f != nil {
				return f
			}
		}
	}
	return nil
}

// flagError says with one dash what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return kit.Usage(cmd, "%s has no flag -%s%s", cmd.CommandPath(), unknown.GetSpecifiedName(), nearFlag(cmd, unknown.GetSpecifiedName()))
	case errors.As(err, &empty):
		return kit.Usage(cmd, "the flag -%s needs a value", empty.GetSpecifiedName())
	case errors.As(err, &invalid):
		return kit.Usage(cmd, "the value %q of the flag -%s is not %s", invalid.GetValue(), invalid.GetFlag().Name, kindOf(invalid.GetFlag()))
	}
	return fault.WithHint(err, `see "`+cmd.CommandPath()+` -help"`)
}

func kindOf(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64", "uint64":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return "a duration such as 30s or 2m"
	}
	return "of the kind " + f.Value.Type()
}

// nearFlag is a flag whose name begins like the one that was typed.
func nearFlag(cmd *cobra.Command, typed string) string {
	best, common := "", 2
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		n := 0
		for n < len(typed) && n < len(f.Name) && typed[n] == f.Name[n] {
			n++
		}
		if n > common {
			best, common = f.Name, n
		}
	})
	if best == "" {
		return ""
	}
	return ", but -" + best
}
