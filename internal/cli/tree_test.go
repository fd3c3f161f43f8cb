package cli

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"berth/internal/cli/kit"
)

func everyCommand(cmd *kit.Command, visit func(*kit.Command)) {
	visit(cmd)
	for _, c := range cmd.Verbs() {
		everyCommand(c, visit)
	}
}

func tree() (*kit.Env, *kit.Command, *bytes.Buffer) {
	var out bytes.Buffer
	e := kit.New(strings.NewReader(""), &out, &out, func(string) string { return "" }, nil, "9")
	return e, newRoot(e, Options{}, ""), &out
}

// Given every command, then its help has a sentence, an example that names it, and flags that say what they do; and it
// says how many arguments it takes.
func TestEveryCommandExplainsItself(t *testing.T) {
	e, root, out := tree()
	n := 0
	everyCommand(root, func(c *kit.Command) {
		path := c.Path()
		n++
		if c != root && c.Short == "" {
			t.Errorf("%s has no sentence", path)
		}
		if len(c.Verbs()) == 0 {
			verb := strings.TrimPrefix(path, "berth ")
			if c.Example == "" ||
				!strings.Contains(c.Example, "berth "+verb) && !strings.Contains(c.Example, " "+c.Name()+" ") {
				t.Errorf("%s: no example of it: %q", path, c.Example)
			}
			if c.Run == nil {
				t.Errorf("%s does nothing", path)
			}
			for _, name := range strings.Fields(c.Use)[1:] {
				if !strings.ContainsAny(name[:1], "[<-") {
					t.Errorf("%s: %q is neither an argument nor a flag", path, name)
				}
			}
		}
		c.Flags().VisitAll(func(f *flag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: the flag -%s says nothing", path, f.Name)
			}
			if f.Name == "yes" && c.Flags().Letter("yes") != "y" {
				t.Errorf("%s asks, and takes -yes, but not -y", path)
			}
		})
		out.Reset()
		help(e.Out, c)
		if !strings.HasPrefix(out.String(), "Usage: "+path) ||
			!strings.Contains(out.String(), strings.TrimSuffix(c.Short, ".")) && c.Long == "" {
			t.Errorf("%s: help: %s", path, out)
		}
	})
	if n < 45 {
		t.Errorf("only %d commands", n)
	}
}

// Given what people type, when it is read, then flags have one dash or two and stand anywhere, values stay with their
// flags, and what belongs to another program stays as it is.
func TestRead(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"job run -detach x.hcl", "job run detach=true | x.hcl"},
		{"job run -var a=b --var c=-d x.hcl", "job run var=a=b,c=-d | x.hcl"},
		{"job run -var -x x.hcl", "job run var=-x | x.hcl"},
		{"job run x.hcl -detach", "job run detach=true | x.hcl"},
		{"job run -hcl2-strict=false x.hcl", "job run hcl2-strict=false | x.hcl"},
		{"-address http://x job status -short", "job status address=http://x short=true |"},
		{"job status -address=http://x", "job status address=http://x |"},
		{"alloc logs -f -n 5 -c=3 a t", "alloc logs bytes=3 follow=true lines=5 | a t"},
		{"alloc exec -i -t=false -task x a ls -la -t", "alloc exec stdin=true task=x tty=false | a ls -la -t"},
		{"exec -e none a -- ls -l", "exec escape=none | a -- ls -l"},
		{"job status -- -odd", "job status | -odd"},
		{"operator api -H A:b -X PUT /x -", "operator api header=A:b method=PUT | /x -"},
		{"job status -t {{.}}", "job status template={{.}} |"},
		{"job stop -y -purge a", "job stop purge=true yes=true | a"},
		{"alloc-status -short a", "alloc status short=true | a"},
		{"help job run", "job run | help"},
		{"job run -help=true", "job run | help"},
		{"job run -h=false a", "job run | a"},
		{"-v", "version |"},
	} {
		_, root, _ := tree()
		got, err := read(root, unalias(strings.Fields(c.in)))
		text := strings.TrimPrefix(got.cmd.Path(), "berth ")
		for _, set := range []*kit.Flags{root.Flags(), got.cmd.Flags()} {
			set.Visit(func(f *flag.Flag) { text += " " + f.Name + "=" + f.Value.String() })
		}
		text += " | " + strings.Join(got.args, " ")
		if got.help {
			text += "help"
		}
		if err != nil || strings.TrimSpace(text) != c.want {
			t.Errorf("%s: %q %v, want %q", c.in, text, err, c.want)
		}
	}
}

// Given the beginning of a word, when a shell asks, then commands and flags are offered, and nothing for a flag's
// value.
func TestComplete(t *testing.T) {
	for in, want := range map[string]string{
		"jo":                    "job",
		"volume snapshot ":      "create delete list",
		"job run -de":           "-detach",
		"job run -addr":         "-address",
		"job run -var a":        "",
		"job stop -eval-pri":    "-eval-priority",
		"job stop -nosuch x":    "",
		"node orphans ":         "adopt end list",
		"completion z":          "zsh",
		"-address http://x job": "job",
		"job run --de":          "--detach",
	} {
		e, root, _ := tree()
		if got := strings.Join(complete(t.Context(), e, root, strings.Split(in, " ")), " "); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// Leaves lists every command that does something, without "berth".
func Leaves() (out []string) {
	_, root, _ := tree()
	everyCommand(root, func(c *kit.Command) {
		if len(c.Verbs()) == 0 {
			out = append(out, strings.TrimPrefix(c.Path(), "berth "))
		}
	})
	return out
}

// Given the name of a command as the first word, then what is made of the tree has that command as the whole tree has
// it, with all that is beneath it, and less than half of the rest.
func TestACommandIsMadeWithoutTheOthers(t *testing.T) {
	shapes := func(root *kit.Command) map[string]string {
		out := map[string]string{}
		everyCommand(root, func(c *kit.Command) {
			shape := c.Use + "\n" + c.Short
			c.Flags().VisitAll(func(f *flag.Flag) { shape += "\n-" + f.Name + " " + f.DefValue + ": " + f.Usage })
			out[c.Path()] = shape
		})
		return out
	}
	whole := program()
	all := shapes(whole)
	for _, c := range whole.Verbs() {
		made := shapes(partOf(c.Name()))
		if len(made) > len(all)/2 {
			t.Errorf("%d of %d commands are made for %q", len(made), len(all), c.Name())
		}
		everyCommand(c, func(c *kit.Command) {
			if made[c.Path()] != all[c.Path()] {
				t.Errorf("%s is %q when it is named, and %q in the whole tree", c.Path(), made[c.Path()], all[c.Path()])
			}
		})
	}
}
