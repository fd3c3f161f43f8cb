// Command unused fails when a function of the programs is called by nobody and tools/arch/kept.txt does not say for
// which feature it stands. It reads `deadcode -json` from its input; `make lint` connects the two. Nothing imports it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const keptFile = "tools/arch/kept.txt"

func main() {
	kept, err := os.ReadFile(keptFile)
	if err == nil {
		err = judge(os.Stdin, os.Stdout, string(kept))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "unused:", err)
		os.Exit(1)
	}
}

// deadPackage is a package as deadcode reports it.
type deadPackage struct {
	Path  string
	Funcs []struct {
		Name     string
		Position struct {
			File string
			Line int
		}
		Generated bool
	}
}

// judge compares what deadcode found with what is kept, and writes what is wrong.
func judge(from io.Reader, to io.Writer, kept string) error {
	var found []deadPackage
	if err := json.NewDecoder(from).Decode(&found); err != nil {
		return fmt.Errorf("read what deadcode says: %w", err)
	}
	listed := functions(kept)
	wrong := 0
	for _, p := range found {
		if serves(p.Path) {
			continue
		}
		_, dir, _ := strings.Cut(p.Path, "/") // without the module
		for _, f := range p.Funcs {
			key := dir + "." + f.Name + "()"
			if at := slices.Index(listed, key); at >= 0 {
				listed = slices.Delete(listed, at, at+1)
			} else if !f.Generated && !strings.HasSuffix(f.Name, ".String") {
				// String prints values in tests and messages: it is called without being named.
				fmt.Fprintf(to, "%s:%d: no program calls %s\n", f.Position.File, f.Position.Line, key)
				wrong++
			}
		}
	}
	for _, key := range listed {
		fmt.Fprintf(to, "%s: %s is called, or gone: delete its line\n", keptFile, key)
		wrong++
	}
	if wrong > 0 {
		return errors.New("delete what nobody calls, or say in " + keptFile + " which announced feature will")
	}
	return nil
}

// functions lists the functions among the kept things.
func functions(kept string) []string {
	var out []string
	for line := range strings.Lines(kept) {
		key, _, _ := strings.Cut(strings.TrimSpace(line), " : ")
		if strings.HasSuffix(key, "()") && !strings.HasPrefix(key, "#") {
			out = append(out, key)
		}
	}
	return out
}

// serves tells packages that others call: tests, and users of the public client.
func serves(importPath string) bool {
	for _, part := range []string{"/internal/testkit/", "/internal/conformance/", "/tools/", "/api", "/jobspec"} {
		if strings.Contains(importPath+"/", part) {
			return true
		}
	}
	return false
}
