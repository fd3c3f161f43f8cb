package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// inShell is a line that each shell completes with the script that berth writes for it: zsh as it calls a completion
// function, fish as it completes for itself. Where berth knows nothing, both offer files.
var inShell = map[string]string{
	"zsh": `source "$SCRIPT"
compadd() { shift; print -r -- "$*" }
_files() { print -r -- w* }
words=(berth -address unix:///x job -namespace=d); CURRENT=5; _berth
words=(berth ""); CURRENT=2; _berth
words=(berth job run w); CURRENT=4; _berth
`,
	"fish": `source $SCRIPT
complete -C "berth -address unix:///x job -namespace=d"
string join ' ' (complete -C "berth ")
complete -C "berth job run w"
`,
}

// Given a shell, when a line is completed, then the command line is asked with the words as they were written, and what
// it answers is offered alone; without an answer the shell offers files.
func TestCompletionInZshAndFish(t *testing.T) {
	const answers = `#!/bin/sh
{ printf '%s|' "$@"; echo; } >> "$ASKED"
for last; do :; done
case $last in -namespace=d) echo -namespace=default ;; '') echo job; echo node ;; esac
`
	const want = "__complete|-address|unix:///x|job|-namespace=d|\n__complete||\n__complete|job|run|w|\n"
	for shell, line := range inShell {
		t.Run(shell, func(t *testing.T) {
			if _, err := exec.LookPath(shell); err != nil {
				t.Skip(shell + " is not installed; scripts/install-debian.sh installs it")
			}
			dir := t.TempDir()
			script := run(t.Context(), "http://127.0.0.1:1", "", "completion", shell).stdout
			for name, text := range map[string]string{"berth": answers, "script": script, "web.hcl": ""} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			cmd := exec.CommandContext(t.Context(), shell, "-c", line)
			cmd.Dir = dir
			asked := filepath.Join(dir, "asked")
			cmd.Env = append(os.Environ(), "HOME="+dir, "ZDOTDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir,
				"PATH="+dir+":"+os.Getenv("PATH"), "ASKED="+asked, "SCRIPT="+filepath.Join(dir, "script"))
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != "-namespace=default\njob node\nweb.hcl\n" {
				t.Errorf("%s offers %q, %v", shell, out, err)
			}
			if words, err := os.ReadFile(asked); err != nil || string(words) != want {
				t.Errorf("asked with %q %v, want %q", words, err, want)
			}
		})
	}
}
