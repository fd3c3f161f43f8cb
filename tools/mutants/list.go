package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mutant is one edit that breaks something for users, and the tests of which one must fail by it.
type mutant struct {
	name    string
	promise string // what breaks for the user
	file    string // below the root of the repository
	tests   []test
	from    string
	to      string
	at      string // file:line of the entry
}

// test names tests of one package.
type test struct {
	pkg string // as go test takes it: ./internal/server/fsm
	run string // the value of -run
}

// Marks of an entry's lines.
const (
	markName = "== "
	markFrom = "<<<<"
	markTo   = "===="
	markEnd  = ">>>>"
)

// readLists reads every list in a directory.
func readLists(dir string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s holds no list", dir)
	}
	var all []mutant
	var errs []error
	named := map[string]string{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		list, err := parseList(f, string(raw))
		errs = append(errs, err)
		for _, m := range list {
			if first, twice := named[m.name]; twice {
				errs = append(errs, fmt.Errorf("%s: %q is the name of another entry, in %s", m.at, m.name, first))
			}
			named[m.name] = m.at
		}
		all = append(all, list...)
	}
	return all, errors.Join(errs...)
}

// parseList reads the entries of one list. Outside of entries, empty lines and such that begin with # mean nothing.
func parseList(path, text string) ([]mutant, error) {
	var list []mutant
	var m *mutant
	var body *[]string // of the block that is being read
	var from, to []string
	for i, line := range strings.Split(text, "\n") {
		at := fmt.Sprintf("%s:%d", path, i+1)
		switch {
		case body == &to && line == markEnd:
			m.from, m.to = strings.Join(from, "\n"), strings.Join(to, "\n")
			if err := m.whole(); err != nil {
				return list, err
			}
			list = append(list, *m)
			m, body = nil, nil
		case body == &from && line == markTo:
			body = &to
		case body != nil && strings.HasPrefix(line, markName):
			return list, fmt.Errorf("%s: entry %q does not end with %s before the next begins", at, m.name, markEnd)
		case body != nil:
			*body = append(*body, line)
		case m == nil && strings.HasPrefix(line, markName):
			m = &mutant{name: strings.TrimPrefix(line, markName), at: at}
		case m == nil && (strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#")):
		case m != nil && line == markFrom:
			from, to = nil, nil
			body = &from
		case m != nil && m.set(line):
		default:
			return list, fmt.Errorf("%s: %q has no meaning here", at, line)
		}
	}
	if m != nil {
		return list, fmt.Errorf("%s: entry %q does not end with %s", m.at, m.name, markEnd)
	}
	return list, nil
}

// set takes over one line of an entry's head.
func (m *mutant) set(line string) bool {
	key, value, ok := strings.Cut(line, ": ")
	value = strings.TrimSpace(value)
	switch {
	case !ok:
		return false
	case key == "promise":
		m.promise = value
	case key == "file":
		m.file = value
	case key == "test":
		pkg, run, _ := strings.Cut(value, " ")
		m.tests = append(m.tests, test{pkg: pkg, run: strings.TrimSpace(run)})
	default:
		return false
	}
	return true
}

// whole refuses an entry in which something is missing.
func (m *mutant) whole() error {
	missing := ""
	switch {
	case m.promise == "":
		missing = "what breaks for the user (promise:)"
	case m.file == "":
		missing = "the file that it edits (file:)"
	case len(m.tests) == 0:
		missing = "a test that must fail (test:)"
	case m.from == "":
		missing = "the text that it replaces"
	case m.from == m.to:
		missing = "a difference"
	}
	for _, t := range m.tests {
		if t.run == "" || !strings.HasPrefix(t.pkg, "./") {
			missing = `a test of the form "./package TestName"`
		}
	}
	if missing == "" {
		return nil
	}
	return fmt.Errorf("%s: entry %q lacks %s", m.at, m.name, missing)
}

// apply returns the mutated file.
func (m *mutant) apply(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.file))
	if err != nil {
		return "", fmt.Errorf("%s: entry %q: %w", m.at, m.name, err)
	}
	// Whole lines: a part of one could be found in more places than the author saw.
	lines, old := strings.Split(string(raw), "\n"), strings.Split(m.from, "\n")
	var places []int
	for i := range len(lines) - len(old) + 1 {
		if slices.Equal(lines[i:i+len(old)], old) {
			places = append(places, i)
		}
	}
	if len(places) != 1 {
		return "", fmt.Errorf("%s: entry %q: its old text is found %d times in %s, not once: write the entry anew, "+
			"or choose more lines", m.at, m.name, len(places), m.file)
	}
	var edited []string
	if m.to != "" {
		edited = strings.Split(m.to, "\n")
	}
	return strings.Join(slices.Concat(lines[:places[0]], edited, lines[places[0]+len(old):]), "\n"), nil
}

// fresh says what is wrong with a list without compiling anything: texts that are not found once, and tests that are
// not there.
func fresh(root string, list []mutant) error {
	var errs []error
	known := map[string][]string{}
	for _, m := range list {
		if _, err := m.apply(root); err != nil {
			errs = append(errs, err)
		}
		for _, t := range m.tests {
			if known[t.pkg] == nil {
				names, err := testNames(filepath.Join(root, t.pkg))
				if err != nil {
					errs = append(errs, err)
				}
				known[t.pkg] = names
			}
			if err := t.exists(known[t.pkg]); err != nil {
				errs = append(errs, fmt.Errorf("%s: entry %q: %w", m.at, m.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// exists reports an error when none of the names is meant. Subtests, after a slash, are not looked at.
func (t test) exists(names []string) error {
	top, _, _ := strings.Cut(t.run, "/")
	pattern, err := regexp.Compile(top)
	if err != nil {
		return err
	}
	for _, n := range names {
		if pattern.MatchString(n) {
			return nil
		}
	}
	return fmt.Errorf("package %s has no test %s", t.pkg, top)
}

// testNames lists the tests in a directory.
func testNames(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, f := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names, nil
}
