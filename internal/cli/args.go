package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/internal/base/fault"
	"berth/internal/cli/kit"
)

// aliases are old names of commands that people still type.
var aliases = map[string][]string{
	"alloc-status": {"alloc", "status"}, "eval-status": {"eval", "status"}, "node-status": {"node", "status"},
	"server-members": {"server", "members"}, "volume-status": {"volume", "status"},
	"-v": {"version"}, "-version": {"version"}, "--version": {"version"},
}

// unalias writes old names and "help" as they are written today.
func unalias(args []string) []string {
	if len(args) == 0 {
		return args
	}
	if to, ok := aliases[args[0]]; ok {
		return slices.Concat(to, args[1:])
	}
	if args[0] == "help" {
		return slices.Concat(args[1:], []string{"-help"})
	}
	return args
}

// call is a command as it was typed.
type call struct {
	cmd  *kit.Command
	args []string
	help bool
}

// read finds the command and sets its flags, which may stand anywhere, with one dash or two. It stops where the command
// does, as exec must. Words that are no command are refused, with the closest one.
func read(root *kit.Command, words []string) (call, error) {
	c := call{cmd: root}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		name, value, valued := strings.Cut(strings.TrimLeft(word, "-"), "=")
		var err error
		switch {
		case word == "--":
			c.args = append(c.args, words...)
			return c, nil
		case len(word) > 1 && word[0] == '-' && (name == "help" || name == "h"):
			if c.help = true; valued {
				c.help, err = strconv.ParseBool(value)
			}
			if err != nil {
				err = kit.Usage("the value %q of the flag -help is not true or false", value)
			}
		case len(word) > 1 && word[0] == '-':
			words, err = c.cmd.Read(word, words)
		case len(c.cmd.Verbs()) > 0:
			if c.cmd, err = verb(c.cmd, word); err == nil && c.cmd.Elsewhere() {
				c.args = words
				return c, nil
			}
		case c.cmd.Foreign:
			c.args = append([]string{word}, words...)
			return c, nil
		default:
			c.args = append(c.args, word)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// verb finds the command that a word names beneath a noun.
func verb(noun *kit.Command, word string) (*kit.Command, error) {
	var names []string
	for _, c := range noun.Verbs() {
		if c.Name() == word {
			return c, nil
		}
		names = append(names, c.Name())
	}
	hint := fmt.Sprintf("%q lists the commands", noun.Path()+" -help")
	if near := suggested(word, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", noun.Path()+" "+near)
	}
	name := strings.TrimPrefix(noun.Path()+" "+word, "berth ")
	if way := wayOut(name); way != "" {
		hint = way
	}
	err := kit.Fail(fault.Invalid, "", "there is no command %q", name)
	return noun, &kit.Exit{Code: kit.ExitUnknown, Err: fault.WithHint(err, hint)}
}

// complete lists what may come for the last word: commands, flags, or ids that the agent knows.
func complete(ctx context.Context, e *kit.Env, root *kit.Command, words []string) []string {
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	c, err := read(root, words[:len(words)-1])
	if err != nil {
		return nil // the word is the value of a flag, or belongs to what does not exist
	}
	var all []string
	switch {
	case c.cmd.Elsewhere():
		return nil // its flags are its own
	case strings.HasPrefix(last, "-"):
		dash := last[:min(2, len(last)-len(strings.TrimLeft(last, "-")))]
		for _, set := range []*kit.Flags{c.cmd.Flags(), root.Flags()} {
			set.VisitAll(func(f *flag.Flag) { all = append(all, dash+f.Name) })
		}
	case len(c.cmd.Verbs()) > 0:
		for _, v := range c.cmd.Verbs() {
			all = append(all, v.Name())
		}
	case c.cmd.JobIDs != nil && *c.cmd.JobIDs && len(c.args) == 0:
		return e.Search(ctx, "jobs", last)
	case c.cmd.IDs != "" && len(c.args) == 0:
		return e.Search(ctx, c.cmd.IDs, last)
	}
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, last) })
}

// shells are the scripts by which shells ask for completions. Where there are none, files are offered.
var shells = []struct{ name, use, script string }{
	// Bash takes ":" and "=" for ends of words: the line is split anew, and what bash has already is taken off the
	// answers.
	{"bash", `eval "$(berth completion bash)"`, `_berth() {
  local line="${COMP_LINE:0:COMP_POINT}" words last
  read -ra words <<< "$line"
  [[ "$line" == *[[:space:]] ]] && words+=("")
  last="${words[${#words[@]}-1]}"
  local IFS=$'\n'
  COMPREPLY=($(berth __complete "${words[@]:1}" 2>/dev/null))
  COMPREPLY=("${COMPREPLY[@]#"${last%"${COMP_WORDS[COMP_CWORD]}"}"}")
}
complete -o default -F _berth berth
`},
	// Zsh knows compdef only after compinit; as a file of fpath the script is the function itself.
	{"zsh", `eval "$(berth completion zsh)"`, `#compdef berth
(( $+functions[compdef] )) || { autoload -Uz compinit; compinit; }
_berth() {
  local -a found
  found=("${(@f)$(berth __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then compadd -- $found; else _files; fi
}
if [[ $funcstack[1] == _berth ]]; then _berth "$@"; else compdef _berth berth; fi
`},
	// Fish offers files beside every answer unless that is switched off.
	{"fish", "berth completion fish | source", `function __berth_complete
  set -l found (berth __complete (commandline -opc)[2..] (commandline -ct) 2>/dev/null)
  if set -q found[1]
    string join \n -- $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c berth -f -a '(__berth_complete)'
`},
}

func newCompletion(e *kit.Env) *kit.Command {
	noun := &kit.Command{Use: "completion", Short: "Write the script with which a shell completes commands and ids"}
	for _, s := range shells {
		noun.Add(&kit.Command{
			Use:     s.name,
			Short:   "Write the script for " + s.name,
			Example: "  " + s.use,
			Local:   true,
			Run: func(context.Context, []string) error {
				e.Out.Text(s.script)
				return nil
			},
		})
	}
	return noun
}
