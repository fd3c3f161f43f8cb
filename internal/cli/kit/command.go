package kit

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"berth/internal/base/fault"
)

// Command is a verb, or a noun with verbs.
type Command struct {
	Use     string // its name and its arguments: "logs [flags] <alloc> [task]"
	Short   string // what it does, for lists of commands
	Long    string
	Example string
	IDs     string // kind of the objects that the first argument names, in the words of a search
	JobIDs  *bool  // a flag that makes a job of the first argument; nil: none does
	Run     func(ctx context.Context, args []string) error

	// Failure is the exit code of its errors, those in how it was called included; 0: ExitError. It is for commands of
	// which 1 is an answer.
	Failure int

	Local   bool // it asks no agent
	Foreign bool // its flags end at its first argument: what follows is for another program

	sub    []*Command
	parent *Command
	flags  *Flags
}

// Add gives a noun its verbs, and the command itself.
func (c *Command) Add(verbs ...*Command) *Command {
	for _, v := range verbs {
		v.parent = c
	}
	c.sub = append(c.sub, verbs...)
	slices.SortStableFunc(c.sub, func(a, b *Command) int { return strings.Compare(a.Name(), b.Name()) })
	return c
}

// Noun makes a noun of its verbs.
func Noun(name, short string, verbs ...*Command) *Command {
	return (&Command{Use: name, Short: short}).Add(verbs...)
}

// Verbs are the commands beneath a noun, by name.
func (c *Command) Verbs() []*Command { return c.sub }

// Elsewhere reports whether another program reads what follows the command's name, flags and all.
func (c *Command) Elsewhere() bool { return c.parent != nil && c.Run == nil && len(c.sub) == 0 }

// Root is the command above all.
func (c *Command) Root() *Command {
	if c.parent == nil {
		return c
	}
	return c.parent.Root()
}

// Name is the word that people type.
func (c *Command) Name() string {
	name, _, _ := strings.Cut(c.Use, " ")
	return name
}

// Path is the name with those of the nouns before it.
func (c *Command) Path() string {
	if c.parent == nil {
		return c.Name()
	}
	return c.parent.Path() + " " + c.Name()
}

// Synopsis is how the command is called. That there are flags it knows from the flags.
func (c *Command) Synopsis() string {
	if len(c.sub) > 0 {
		return c.Path() + " <command> [flags] [arguments]"
	}
	args := strings.Fields(c.Use)[1:]
	args = slices.DeleteFunc(args, func(arg string) bool { return arg == "[flags]" })
	some := false
	c.Flags().VisitAll(func(*flag.Flag) { some = true })
	if some {
		args = slices.Insert(args, 0, "[flags]")
	}
	return strings.Join(append([]string{c.Path()}, args...), " ")
}

// Flags are the command's own flags, to add to.
func (c *Command) Flags() *Flags {
	if c.flags == nil {
		c.flags = &Flags{FlagSet: flag.NewFlagSet(c.Name(), flag.ContinueOnError), letters: map[string]string{}}
	}
	return c.flags
}

// Check tells whether there are as many arguments as Use names: one in brackets is optional, one with dots may come
// again.
func (c *Command) Check(args []string) error {
	var names []string
	least := 0
	for _, name := range strings.Fields(c.Use)[1:] {
		if name == "[flags]" || name[0] == '-' {
			continue
		}
		names = append(names, name)
		if name[0] != '[' {
			least++
		}
	}
	most := len(names)
	if most > 0 && strings.Contains(names[most-1], "...") {
		most = len(args)
	}
	wanted := strings.Join(names, " ")
	switch {
	case len(args) < least:
		return Usage("%s needs %s", c.Path(), wanted)
	case len(args) > most && most == 0:
		return Usage("%s takes no arguments, but there is %q", c.Path(), args[0])
	case len(args) > most:
		return Usage("%s takes %s and no more, but there is %q too", c.Path(), wanted, args[most])
	}
	if i := slices.Index(args[:least], ""); i >= 0 { // as a variable of a shell is that was never set
		return Usage("%s needs %s, but %s is empty", c.Path(), wanted, names[i])
	}
	return nil
}

// UsageError is an error in how a command was called.
type UsageError struct{ text string }

func (u *UsageError) Error() string { return u.text }

// Usage is an error in how a command was called. The root of the command line names the command's help.
func Usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// Hint is the error with the way to the command's help.
func (u *UsageError) Hint(c *Command) error {
	return Fail(fault.Invalid, `see "`+c.Path()+` -help"`, "%s", u.text)
}

// Flags are flags as package flag has them, some with a letter as a second name.
type Flags struct {
	*flag.FlagSet
	letters map[string]string // by long name
}

// Letters gives flags a second name each: "f=follow".
func (f *Flags) Letters(pairs ...string) {
	for _, pair := range pairs {
		letter, long, _ := strings.Cut(pair, "=")
		f.letters[long] = letter
	}
}

// Letter is the second name of a flag, or nothing.
func (f *Flags) Letter(long string) string { return f.letters[long] }

// Find is the flag of a name or a letter.
func (f *Flags) Find(name string) *flag.Flag {
	for long, letter := range f.letters { // any order: a letter belongs to one flag
		if letter == name {
			name = long
		}
	}
	return f.Lookup(name)
}

// Given reports whether a flag was on the command line.
func (f *Flags) Given(name string) bool {
	given := false
	f.Visit(func(fl *flag.Flag) { given = given || fl.Name == name })
	return given
}

// Read sets the flag that arg names, in the command's flags or the general ones, and returns what is left of the
// arguments after it and its value.
func (c *Command) Read(arg string, rest []string) ([]string, error) {
	name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	set := c.Flags()
	f := set.Find(name)
	if f == nil {
		set = c.Root().Flags()
		f = set.Find(name)
	}
	if f == nil {
		var names []string
		c.Flags().VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
		near := Nearest(name, names)
		if near != "" {
			near = ", but -" + near
		}
		return nil, Usage("%s has no flag -%s%s", c.Path(), name, near)
	}
	switch {
	case has:
	case IsBool(f):
		value = "true"
	case len(rest) == 0:
		return nil, Usage("the flag -%s needs a value", f.Name)
	default:
		value, rest = rest[0], rest[1:]
	}
	if set.Set(f.Name, value) != nil {
		return nil, Usage("the value %q of the flag -%s is not %s", value, f.Name, kindOf(f))
	}
	return rest, nil
}

// IsBool reports whether a flag may stand without a value.
func IsBool(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

func kindOf(f *flag.Flag) string {
	if g, ok := f.Value.(flag.Getter); ok {
		switch g.Get().(type) {
		case int, int64:
			return "a whole number"
		case bool:
			return "true or false"
		case time.Duration:
			return "a duration such as 30s or 2m"
		}
	}
	return "valid"
}

// Strings are the values of a flag that may come again.
type Strings []string

// Set adds a value.
func (s *Strings) Set(value string) error {
	*s = append(*s, value)
	return nil
}

func (s *Strings) String() string { return strings.Join(*s, ",") }

// Nearest is the name that was probably meant by a word: it begins so, or differs in two letters at most, and in less
// than half of its own.
func Nearest(word string, names []string) string {
	if word == "" {
		return ""
	}
	word = strings.ToLower(word)
	nearest, least := "", 3
	for _, name := range names {
		d := Edits(word, name)
		if strings.HasPrefix(name, word) {
			d = 0
		}
		if d < least && 2*d < len(word) {
			nearest, least = name, d
		}
	}
	return nearest
}

// Edits counts the letters to insert, remove or change on the way from one word to another.
func Edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
