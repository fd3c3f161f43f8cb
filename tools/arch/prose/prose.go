// Package prose owns the rules about words: what names, comments, messages and pages may say, and what they may refer
// to. It sees texts and where they stand, not syntax; only tools/arch imports it.
package prose

import (
	"fmt"
	"io/fs"
	"strings"
)

// Repo is the repository as text.
type Repo struct {
	FS    fs.FS
	Texts []string // every file, slash-separated from the root
	Files []*File  // the Go files among them that the module builds
}

// File is what a Go file says.
type File struct {
	Path     string
	Dir      string
	Test     bool
	Names    []Name   // what it declares at its top level, with methods and fields
	Locals   []Name   // what it declares within functions, with parameters
	Comments [][]Text // each group by its lines
	Strings  []Text   // literals without their quotes
}

// Name is an identifier where it is declared.
type Name struct {
	Line     int
	Text     string
	Exported bool
	Kind     Kind
}

// Kind is what a name was given to.
type Kind string

// The kinds of names that rules tell apart.
const (
	Func  Kind = "func" // of a package, not a method
	Type  Kind = "type"
	Other Kind = ""
)

// Text is one line of a text.
type Text struct {
	Line int
	Text string
}

// Finding is one place where a rule is broken.
type Finding struct {
	Path string
	Line int
	Text string
	Why  string // a reason of its own, where the rule has several
}

func (f Finding) String() string {
	if f.Line == 0 {
		return f.Path + ": " + f.Text
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Under tells whether a folder falls under a pattern: "a/b" itself, "a/b/**" it and all below.
func Under(pattern, dir string) bool {
	if base, deep := strings.CutSuffix(pattern, "/**"); deep {
		return base == "" || dir == base || strings.HasPrefix(dir, base+"/")
	}
	return dir == pattern
}

// Lines yields the meaningful lines of a rule file with their numbers: no blanks, no # comments.
func Lines(text string) []Text {
	var out []Text
	for i, line := range strings.Split(text, "\n") {
		if s := strings.TrimSpace(line); s != "" && !strings.HasPrefix(s, "#") {
			out = append(out, Text{i + 1, line})
		}
	}
	return out
}
