package cli

import (
	"context"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"berth/internal/cli/kit"
	"berth/internal/cli/plugintest"
)

// Forms in which pages name commands: in the marks of code, and in lines for a shell.
var (
	quotedCommand = regexp.MustCompile("`(?:[A-Z_]+=\\S+ )?berth ([^`]+)`")
	shellBlock    = regexp.MustCompile("(?s)```sh\n(.*?)```")
	shellComment  = regexp.MustCompile(`\s+#.*$`)
	shellCommand  = regexp.MustCompile(`(?:^|&& |; |\| |\$\(|sudo |until )(?:bin/)?berth ([^|;&<>)]+)`)
	shellText     = regexp.MustCompile(`"[^"]*"|'[^']*'|<\w+>`)
)

// commandsOn lists the commands that a page names; whole: with all their arguments, as a person is to type them.
func commandsOn(text string) (whole, named []string) {
	for _, block := range shellBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			line = shellText.ReplaceAllString(shellComment.ReplaceAllString(strings.TrimSpace(line), ""), "TEXT")
			for _, m := range shellCommand.FindAllStringSubmatch(line, -1) {
				whole = append(whole, strings.TrimSpace(m[1]))
			}
		}
	}
	for _, m := range quotedCommand.FindAllStringSubmatch(shellBlock.ReplaceAllString(text, ""), -1) {
		named = append(named, shellText.ReplaceAllString(strings.Join(strings.Fields(m[1]), " "), "TEXT"))
	}
	return whole, named
}

// Given the pages, then each command that they name is there, with its flags; and what they have people type has the
// arguments that the command wants.
func TestPagesNameCommandsThatThereAre(t *testing.T) {
	repo := os.DirFS("../..")
	found := 0
	check := func(page, line string, whole bool) {
		c, err := read(program(), unalias(strings.Fields(line)))
		if err == nil && whole && !c.help && !c.cmd.Elsewhere() {
			err = c.cmd.Check(c.args)
		}
		if err != nil {
			t.Errorf("%s: berth %s: %v", page, line, err)
		}
		found++
	}
	err := fs.WalkDir(repo, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (path == "docs/adr" || path == "bin" || strings.HasPrefix(path, ".") && path != "."):
			return fs.SkipDir // records tell of what was
		case d.IsDir() || !strings.HasSuffix(path, ".md"):
			return nil
		}
		text, err := fs.ReadFile(repo, path)
		whole, named := commandsOn(string(text))
		for _, line := range whole {
			check(path, line, true)
		}
		for _, line := range named {
			check(path, line, false)
		}
		return err
	})
	if err != nil || found < 50 {
		t.Errorf("%d commands were found, %v", found, err)
	}
}

// program is the tree of commands of the program, which has an agent, a plugin and tests of plugins, too.
func program() *kit.Command { return partOf("") }

// partOf is what is made of the tree when a command is named.
func partOf(name string) *kit.Command {
	e := kit.New(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" }, nil, "9")
	return newRoot(e, Options{
		Agent:   func(context.Context, []string) int { return 0 },
		Plugins: map[string]func(context.Context, []string) int{"local-csi": nil},

		PluginTests: struct{ plugintest.Tester }{},
	}, name)
}
