package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"berth/internal/cli/kit"
)

func everyCommand(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, c := range cmd.Commands() {
		everyCommand(c, visit)
	}
}

func tree() (*cobra.Command, *bytes.Buffer) {
	var out bytes.Buffer
	e := kit.New(strings.NewReader(""), &out, &out, func(string) string { return "" }, nil, "9")
	return newRoot(e, Options{}), &out
}

// Given every command, then its help has a sentence, an example that names it, and flags that say what they do; and it
// says how many arguments it takes.
func TestEveryCommandExplainsItself(t *testing.T) {
	root, out := tree()
	n := 0
	everyCommand(root, func(c *cobra.Command) {
		path := c.CommandPath()
		if strings.HasPrefix(path, "berth completion") || strings.HasPrefix(path, "berth no-help") {
			return
		}
		n++
		if c != root && c.Short == "" {
			t.Errorf("%s has no sentence", path)
		}
		if !c.HasSubCommands() {
			verb := strings.TrimPrefix(path, "berth ")
			if c.Example == "" || !strings.Contains(c.Example, "berth "+verb) && !strings.Contains(c.Example, " "+c.Name()+" ") {
				t.Errorf("%s: no example of it: %q", path, c.Example)
			}
			if c.Args == nil && c.Name() != "fmt" {
				t.Errorf("%s does not say what arguments it takes", path)
			}
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s: the flag -%s says nothing", path, f.Name)
			}
		})
		out.Reset()
		if err := c.Help(); err != nil || !strings.HasPrefix(out.String(), "Usage: "+path) || !strings.Contains(out.String(), strings.TrimSuffix(c.Short, ".")) && c.Long == "" {
			t.Errorf("%s: help %v: %s", path, err, out)
		}
	})
	if n < 45 {
		t.Errorf("only %d commands", n)
	}
}

// Given what people type, when it is normalised, then single dashes become double ones, values stay with their flags, and
// what belongs to somebody else stays as it is.
func TestNormalize(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"job run -detach x.hcl", "job run --detach x.hcl"},
		{"job run -var a=b --var c=-d x.hcl", "job run --var=a=b --var=c=-d x.hcl"},
		{"job run -var -x x.hcl", "job run --var=-x x.hcl"},
		{"job run x.hcl -detach", "job run x.hcl --detach"},
		{"job run -detach=false x.hcl", "job run --detach=false x.hcl"},
		{"-address http://x job status -short", "--address=http://x job status --short"},
		{"job status -address=http://x", "job status --address=http://x"},
		{"alloc logs -f -n 5 -c=3 a t", "alloc logs --follow --lines=5 --bytes=3 a t"},
		{"alloc exec -i -t=false -task x a ls -la -t", "alloc exec --stdin --tty=false --task=x a ls -la -t"},
		{"exec -e none a -- ls -l", "exec --escape=none a -- ls -l"},
		{"job status -- -odd", "job status -- -odd"},
		{"operator api -H A:b -X PUT /x -", "operator api --header=A:b --method=PUT /x -"},
		{"job status -t {{.}}", "job status --template={{.}}"},
		{"job stop -y -purge a", "job stop --yes --purge a"},
		{"alloc-status -short a", "alloc status --short a"},
		{"help job run", "job run --help"},
		{"-v", "version"},
		{"job run -unknown x", "job run --unknown x"},
		{"__complete job st", "__complete job st"},
	} {
		root, _ := tree()
		got, err := normalize(root, strings.Fields(c.in))
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q %v, want %q", c.in, strings.Join(got, " "), err, c.want)
		}
	}
}
