// Command man writes the man pages of all commands of berth into a directory: man DIR BERTH. It asks the program for
// the help of each command, so that a page says what the help says.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	err := errors.New("usage: man DIR BERTH")
	if len(os.Args) == 3 {
		err = writeAll(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "man:", err)
		os.Exit(1)
	}
}

// writeAll writes the page of each command that a program has.
func writeAll(dir, program string) error {
	version, err := exec.Command(program, "version").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w", program, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return write(dir, program, strings.TrimSpace(string(version)), page{
		name:  "berth",
		short: "run jobs on machines, those with state above all",
	})
}

// write writes the page of a command and of those beneath it.
func write(dir, program, version string, p page) error {
	help, err := exec.Command(program, append(p.words, "-help")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ask for the help of %q: %w: %s", p.words, err, help)
	}
	p.read(string(help))
	if err := os.WriteFile(filepath.Join(dir, p.name+".1"), []byte(p.roff(version)), 0o644); err != nil {
		return err
	}
	for _, c := range p.commands() {
		if err := write(dir, program, version, c); err != nil {
			return err
		}
	}
	return nil
}
